"""Programs of all cores: written from plans, what they touch and signal, and how long they take."""
