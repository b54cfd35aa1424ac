package cardjson

import (
	"maps"
	"slices"
	"strconv"
)

// Form is a tree that a signature may be over.
type Form struct {
	Tree map[string]any
	// Lacks are the paths of the document's fields that the tree does not have,
	// although they say something.
	Lacks []string
}

// Forms returns what signatures of the document may be over, without its
// signatures. Specification and practice differ, and so do signers:
//
//   - the document by the rules of A2A 1.0, section 8.4.1: required fields are
//     there even when they are empty, and other fields with default values only
//     if the schema calls them optional;
//   - the same without whatever is empty, required or not, as the SDKs for
//     JavaScript and Python have it;
//   - the document as it is.
//
// The first two come once more without the fields that the schema does not know,
// if there are any, because a reader who rebuilds the card from its types has
// only these. The last one, if there are security schemes, is without them: the
// SDK for JavaScript loses them when it signs or verifies a card that it has
// already parsed (as of 1.3.0). Some forms may be equal.
func Forms(doc map[string]any) []Form {
	raw := maps.Clone(doc)
	delete(raw, "signatures")
	unknown := Unknown(doc)
	whole := present(card(), raw, true)
	known := present(card(), raw, false)
	forms := []Form{{whole, nil}, {full(whole), nil}, {raw, nil}}
	if len(unknown) > 0 {
		forms = append(forms, Form{known, unknown}, Form{full(known), unknown})
	}
	if open := full(known); open["securitySchemes"] != nil {
		delete(open, "securitySchemes")
		lacks := append(slices.Clone(unknown), "securitySchemes")
		slices.Sort(lacks)
		forms = append(forms, Form{open, lacks})
	}
	return forms
}

// Unknown returns the paths of the fields that the schema does not know, in
// order.
func Unknown(doc map[string]any) []string {
	var found []string
	unknownFields(card(), doc, "", &found)
	slices.Sort(found)
	return found
}

func unknownFields(s schema, m map[string]any, at string, found *[]string) {
	for name, v := range m {
		f, ok := s[name]
		if !ok {
			*found = append(*found, at+name)
			continue
		}
		switch f.kind {
		case message:
			if m, ok := v.(map[string]any); ok {
				unknownFields(f.of, m, at+name+".", found)
			}
		case messages:
			l, _ := v.([]any)
			for i, v := range l {
				if m, ok := v.(map[string]any); ok {
					unknownFields(f.of, m, at+name+"["+strconv.Itoa(i)+"].", found)
				}
			}
		case msgMap:
			entries, _ := v.(map[string]any)
			for key, v := range entries {
				if m, ok := v.(map[string]any); ok {
					unknownFields(f.of, m, at+name+"["+strconv.Quote(key)+"].", found)
				}
			}
		}
	}
}

// present applies the rules of presence. Null counts as absent, as it does in
// the JSON of Protocol Buffers.
func present(s schema, m map[string]any, keepUnknown bool) map[string]any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		f, ok := s[name]
		switch {
		case !ok && keepUnknown:
			out[name] = v
		case !ok || v == nil || f.presence == implicit && f.isDefault(v):
		default:
			out[name] = presentValue(f, v, keepUnknown)
		}
	}
	for name, f := range s {
		if _, ok := out[name]; f.presence == required && !ok {
			out[name] = presentValue(f, f.empty(), keepUnknown)
		}
	}
	return out
}

func presentValue(f field, v any, keepUnknown bool) any {
	inner := func(v any) any {
		if m, ok := v.(map[string]any); ok {
			return present(f.of, m, keepUnknown)
		}
		return v
	}
	switch f.kind {
	case message:
		return inner(v)
	case messages:
		if l, ok := v.([]any); ok {
			out := make([]any, len(l))
			for i, v := range l {
				out[i] = inner(v)
			}
			return out
		}
	case msgMap:
		if m, ok := v.(map[string]any); ok {
			out := make(map[string]any, len(m))
			for k, v := range m {
				out[k] = inner(v)
			}
			return out
		}
	}
	return v
}

// full returns the tree without null, "", [] and {}, however deep, and without
// what is empty once they are gone.
func full(m map[string]any) map[string]any {
	out, _ := fullValue(m).(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	return out
}

func fullValue(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" {
			return nil
		}
	case []any:
		var out []any
		for _, v := range v {
			if v := fullValue(v); v != nil {
				out = append(out, v)
			}
		}
		if out == nil {
			return nil
		}
		return out
	case map[string]any:
		var out map[string]any
		for k, v := range v {
			if v := fullValue(v); v != nil {
				if out == nil {
					out = make(map[string]any)
				}
				out[k] = v
			}
		}
		if out == nil {
			return nil
		}
		return out
	}
	return v
}
