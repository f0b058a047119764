-- Where a run's game came from, so that it is found again; empty where it came with the library.
ALTER TABLE run ADD COLUMN game_address VARCHAR DEFAULT ''; -- what --env takes
ALTER TABLE run ADD COLUMN game_version VARCHAR DEFAULT ''; -- of the distribution that it is in
ALTER TABLE run ADD COLUMN game_sha256 VARCHAR DEFAULT ''; -- of its file
