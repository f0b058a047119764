-- What tells this store from others, so that a run's folder can say whose it is. Copies of a store share it; those made
-- of one before this migration, too, since they share the moments at which their schema grew.
CREATE TABLE identity (id VARCHAR PRIMARY KEY);
INSERT INTO identity
SELECT CASE WHEN EXISTS (FROM run) THEN md5(string_agg(applied_at::VARCHAR, ' ' ORDER BY number)) ELSE uuid()::VARCHAR END
FROM migration
WHERE number = 1;
