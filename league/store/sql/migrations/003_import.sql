-- Every file of matches that was imported. Its matches are evaluation rows of the same `run`.
CREATE TABLE import (
    run VARCHAR PRIMARY KEY CHECK (run <> ''),
    sha256 VARCHAR NOT NULL UNIQUE, -- of the file's bytes
    file VARCHAR NOT NULL, -- its name, without the folder
    matches BIGINT NOT NULL CHECK (matches > 0),
    imported_at TIMESTAMP NOT NULL
);
