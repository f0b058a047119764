"""A card duel for two with hidden hands, in turns; its actions are legal tuples."""
