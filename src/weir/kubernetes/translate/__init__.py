"""Translation of pods and the objects around them into the engine's terms. All of it is pure."""
