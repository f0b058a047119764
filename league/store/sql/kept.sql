-- name: take_in
-- Records that a file of kept rows is taken in; no row comes back where it was before.
INSERT OR IGNORE INTO kept VALUES ($file, $taken_at) RETURNING file;
