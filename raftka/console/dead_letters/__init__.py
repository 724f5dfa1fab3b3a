"""Dead letters: records that a program could not use, and wrote to a topic with the reason."""
