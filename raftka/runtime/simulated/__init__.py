"""Many nodes in one thread on virtual time. The seed decides every delay, order and loss."""
