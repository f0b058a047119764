-- The preset that a run was begun with; `auto` sized it to a device, and a longer stage keeps its sizes on another one.
ALTER TABLE run ADD COLUMN preset VARCHAR DEFAULT ''; -- empty: not known, or a league's
