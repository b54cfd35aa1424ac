package cardjson

import (
	"maps"
	"slices"
	"strconv"
)

// Form is a form of a document that a signature may cover.
type Form struct {
	Tree map[string]any
	// Missing are the paths of non-empty fields of the document that the tree does not have.
	Missing []string
}

// Forms returns the forms of a document that its signatures may cover, without the signatures. The specification and
// signers in use differ:
//
//   - the document by the rules of A2A 1.0, section 8.4.1: required fields are present even if they are empty, and other
//     fields with default values only if the schema calls them optional;
//   - the same without all empty fields, required or not, as the SDKs for JavaScript and Python sign it;
//   - the unchanged document.
//
// If there are fields that the schema does not define, the first two forms are repeated without them, because a reader
// who rebuilds the card from its types does not have them. If there are security schemes, the last form omits them: the
// SDK for JavaScript loses them when it signs or verifies a parsed card (as of 1.3.0). Some forms may be equal.
func Forms(doc map[string]any) []Form {
	raw := maps.Clone(doc)
	delete(raw, "signatures")
	unknown := Unknown(doc)
	whole := present(raw, true)
	known := present(raw, false)
	forms := []Form{{whole, nil}, {withoutEmpty(whole), nil}, {raw, nil}}
	if len(unknown) > 0 {
		forms = append(forms, Form{known, unknown}, Form{withoutEmpty(known), unknown})
	}
	if open := withoutEmpty(known); open["securitySchemes"] != nil {
		delete(open, "securitySchemes")
		lacks := append(slices.Clone(unknown), "securitySchemes")
		slices.Sort(lacks)
		forms = append(forms, Form{open, lacks})
	}
	return forms
}

// Unknown returns the sorted paths of the fields that the schema does not define.
func Unknown(doc map[string]any) []string {
	var r rules
	r.message(card(), doc, "")
	slices.Sort(r.unknown)
	return r.unknown
}

// present applies the rules of field presence. Null counts as absent, as in the JSON of Protocol Buffers.
func present(doc map[string]any, keepUnknown bool) map[string]any {
	return (&rules{keepUnknown: keepUnknown}).message(card(), doc, "")
}

// rules applies the rules of field presence to a document, and collects its unknown fields.
type rules struct {
	keepUnknown bool
	unknown     []string // paths
}

func (r *rules) message(s schema, m map[string]any, at string) map[string]any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		f, ok := s[name]
		switch {
		case !ok:
			r.unknown = append(r.unknown, at+name)
			if r.keepUnknown {
				out[name] = v
			}
		case v == nil || f.presence == implicit && f.isDefault(v):
		default:
			out[name] = r.value(f, v, at+name)
		}
	}
	for name, f := range s {
		if _, ok := out[name]; f.presence == required && !ok {
			out[name] = r.value(f, f.empty(), at+name)
		}
	}
	return out
}

func (r *rules) value(f field, v any, at string) any {
	if f.of == nil {
		return v
	}
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, v := range v {
			out[i] = r.inner(f, v, at+"["+strconv.Itoa(i)+"]")
		}
		return out
	case map[string]any:
		if !f.named {
			return r.inner(f, v, at)
		}
		out := make(map[string]any, len(v))
		for k, v := range v {
			out[k] = r.inner(f, v, at+"["+strconv.Quote(k)+"]")
		}
		return out
	}
	return v
}

// inner is value for one message.
func (r *rules) inner(f field, v any, at string) any {
	if m, ok := v.(map[string]any); ok {
		return r.message(f.of, m, at+".")
	}
	return v
}

// withoutEmpty returns the tree without null, "", [] and {} at any depth, and without what is empty after their removal.
func withoutEmpty(m map[string]any) map[string]any {
	out := make(map[string]any)
	for k, v := range m {
		if v := withoutEmptyValue(v); v != nil {
			out[k] = v
		}
	}
	return out
}

// withoutEmptyValue returns nil for an empty value.
func withoutEmptyValue(v any) any {
	switch v := v.(type) {
	case []any:
		var out []any
		for _, v := range v {
			if v := withoutEmptyValue(v); v != nil {
				out = append(out, v)
			}
		}
		if out == nil {
			return nil
		}
		return out
	case map[string]any:
		if out := withoutEmpty(v); len(out) > 0 {
			return out
		}
		return nil
	}
	if v == "" {
		return nil
	}
	return v
}
