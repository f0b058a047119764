-- Files of rows that a process could not write, once they were taken in: so each is, once only.
CREATE TABLE kept (
    file VARCHAR PRIMARY KEY CHECK (file <> ''), -- its name, which ends in the hash of its content
    taken_at TIMESTAMP NOT NULL
);
