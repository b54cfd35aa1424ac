package yamldoc

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/agentarbor/arbor/internal/visible"
)

// aliases replaces the aliases of a document by the values of their anchors.
type aliases struct {
	file    *File
	anchors map[string]expanded
	added   int // the number of values that aliases have added
}

// expanded is a value without aliases.
type expanded struct {
	node   ast.Node
	line   int // of the anchor; 0 for a missing anchor, which is reported once
	values int // the number of values in it, including itself
	depth  int
}

// expand returns the document without aliases. It takes linear time, because all aliases of an anchor share one value.
func (f *File) expand(document ast.Node) ast.Node {
	a := aliases{f, map[string]expanded{}, 0}
	e := a.expand(document)
	if exceeds(a.added, f.rules.Aliases) {
		f.add(nil, "aliases make %s more than %d values larger", f.what(), f.rules.Aliases)
	} else if exceeds(e.depth, 2*f.rules.Depth) {
		f.add(nil, "aliases nest %s more than %d levels deep", f.what(), 2*f.rules.Depth)
	}
	return e.node
}

func (a *aliases) expand(n ast.Node) expanded {
	e := expanded{node: n, values: 1}
	within := func(n *ast.Node) {
		inner := a.expand(*n)
		*n = inner.node
		e.values, e.depth = e.values+inner.values, max(e.depth, inner.depth+1)
	}
	switch v := n.(type) {
	case *ast.SequenceNode:
		for i := range v.Values {
			within(&v.Values[i])
		}
	case *ast.MappingNode:
		for _, pair := range v.Values {
			if key, ok := a.expand(pair.Key).node.(ast.MapKeyNode); ok {
				pair.Key = key
			}
			within(&pair.Value)
		}
	case *ast.AnchorNode:
		name := v.Name.GetToken().Value
		e = a.expand(v.Value) // the anchor is not yet defined inside its value
		if first := a.anchors[name]; first.line > 0 {
			a.file.add(v.GetToken(), "the anchor &%s is already on line %d", visible.Cut(name, 60), first.line)
		}
		e.line, _ = a.file.place(v.GetToken())
		a.anchors[name] = e
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		target, known := a.anchors[name]
		if !known {
			a.file.add(v.GetToken(), "the alias *%[1]s has no anchor &%[1]s before it", visible.Cut(name, 60))
			target = e
			a.anchors[name] = target
		}
		if exceeds(a.added, a.file.rules.Aliases) {
			return e
		}
		a.added += target.values
		return target
	}
	return e
}
