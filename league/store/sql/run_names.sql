-- Every name that rows of any kind stand under.
SELECT run FROM run UNION SELECT run FROM match UNION SELECT gate FROM gate UNION SELECT run FROM import UNION SELECT league FROM learner;
