-- Records that a migration was applied.
INSERT INTO migration VALUES ($number, $name, $applied_at);
