-- The bytes in the blocks that the database says it uses; a file that is shorter was cut off.
SELECT (used_blocks * block_size)::BIGINT FROM pragma_database_size();
