package agentgraph

// MergeConfig merges the configuration over into own. Mappings are merged key by key at any depth; any other value of
// over, including a list, replaces the value of own. The result shares no mapping or list with own or over. It is nil
// if both are nil.
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

// copyConfig returns a deep copy of a JSON value.
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
