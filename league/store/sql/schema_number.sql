-- The newest migration applied; fails, or has no row, where the file is not a league store.
SELECT max(migration.number)
FROM migration, league_store
WHERE league_store.format = 'league store';
