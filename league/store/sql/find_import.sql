-- The import of a file of this content.
SELECT run, matches, imported_at FROM import WHERE sha256 = $sha256;
