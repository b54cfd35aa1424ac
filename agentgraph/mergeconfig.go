package agentgraph

// MergeConfig lays one configuration over another: mappings are merged key by key,
// at any depth, and any other value of over takes the place of what own has, lists
// included. The result shares no mapping and no list with own or over, and is nil if
// both are.
func MergeConfig(own, over map[string]any) map[string]any {
	if own == nil && over == nil {
		return nil
	}
	merged := make(map[string]any, len(own)+len(over))
	for key, v := range own {
		merged[key] = copyConfig(v)
	}
	for key, v := range over {
		below, isMap := v.(map[string]any)
		mine, both := merged[key].(map[string]any)
		if isMap && both {
			merged[key] = MergeConfig(mine, below)
		} else {
			merged[key] = copyConfig(v)
		}
	}
	return merged
}

// copyConfig copies a value of JSON with all that it holds.
func copyConfig(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = copyConfig(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = copyConfig(inner)
		}
		return out
	}
	return v
}
