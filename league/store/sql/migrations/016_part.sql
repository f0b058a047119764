-- Where a bot in Python came from (docs/parts.md), so that it is found again; empty of all other agents.
ALTER TABLE agent ADD COLUMN address VARCHAR DEFAULT ''; -- what --bot takes
ALTER TABLE agent ADD COLUMN version VARCHAR DEFAULT ''; -- of the distribution that it is in
ALTER TABLE agent ADD COLUMN sha256 VARCHAR DEFAULT ''; -- of its code
ALTER TABLE agent ADD COLUMN thing VARCHAR DEFAULT ''; -- what it is called in there
