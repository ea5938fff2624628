"""CEL, the language of device selectors, as Kubernetes extends it: parsed, and evaluated within bounds."""
