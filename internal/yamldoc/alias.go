package yamldoc

import "github.com/goccy/go-yaml/ast"

// EachAnchor calls see with every anchor within a value, in the order of the file.
func (n Node) EachAnchor(see func(name string, anchor Node)) {
	if n.file != nil && n.file.anchored && n.ast != nil {
		ast.Walk(anchors{n.file, see}, n.ast)
	}
}

type anchors struct {
	file *File
	see  func(name string, anchor Node)
}

func (a anchors) Visit(n ast.Node) ast.Visitor {
	if v, ok := n.(*ast.AnchorNode); ok && v.Name != nil {
		a.see(v.Name.GetToken().Value, Node{v, a.file})
	}
	return a
}

// Anchor returns the value that an anchor names.
func (n Node) Anchor() (value Node, ok bool) {
	if v, ok := n.ast.(*ast.AnchorNode); ok {
		return Node{v.Value, n.file}, true
	}
	return n, false
}

// Alias returns the name of the anchor that an alias refers to.
func (n Node) Alias() (name string, ok bool) {
	v, ok := n.ast.(*ast.AliasNode)
	if ok && v.Value != nil {
		name = v.Value.GetToken().Value
	}
	return name, ok
}

// Offset says where in the text the value begins: more is later.
func (n Node) Offset() int {
	if n.ast == nil {
		return 0
	}
	if t := n.ast.GetToken(); t != nil && t.Position != nil {
		return t.Position.Offset
	}
	return 0
}
