"""Plans of products, attention and chains over many cores, beside what the TL paper measured."""
