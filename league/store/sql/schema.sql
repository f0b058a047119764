-- name: schema_number
-- The newest migration applied; fails, or has no row, where the file is not a league store.
SELECT max(migration.number)
FROM migration, league_store
WHERE league_store.format = 'league store';

-- name: record_migration
-- Records that a migration was applied.
INSERT INTO migration VALUES ($number, $name, $applied_at);

-- name: identity
-- What tells this store from others.
SELECT id FROM identity;

-- name: used_bytes
-- The bytes in the blocks that the database says it uses; a file that is shorter was cut off.
SELECT (used_blocks * block_size)::BIGINT FROM pragma_database_size() WHERE database_name = current_database();
