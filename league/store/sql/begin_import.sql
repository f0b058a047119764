-- Inserts an import.
INSERT INTO import VALUES ($run, $sha256, $file, $matches, $imported_at);
