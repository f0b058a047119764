-- Inserts one learner of a league.
INSERT INTO learner VALUES ($run, $league, $place, $role, $settings);
