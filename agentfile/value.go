package agentfile

import "github.com/agentarbor/arbor/internal/yamldoc"

// list reads a list of strings.
func (p *parser) list(k *yamldoc.Key, n yamldoc.Node) (items []item) {
	p.List(k, n, func(text string, n yamldoc.Node) { items = append(items, item{value: text, at: place(n)}) })
	return items
}

// valuesOf returns the values of a list.
func valuesOf(items []item) (values []string) {
	for _, i := range items {
		values = append(values, i.value)
	}
	return values
}

// names reads a list of strings without duplicates.
func (p *parser) names(k *yamldoc.Key, n yamldoc.Node) (items []item) {
	seen := map[string]bool{}
	for _, i := range p.list(k, n) {
		if seen[i.value] {
			p.add(i.at, "%s names %q twice", p.Name, i.value)
			continue
		}
		seen[i.value] = true
		items = append(items, i)
	}
	return items
}

// oneOrMore reads a string, or a list of strings without duplicates.
func (p *parser) oneOrMore(k *yamldoc.Key, n yamldoc.Node) []item {
	if n.Kind() == yamldoc.List {
		return p.names(k, n)
	}
	if v, ok := p.String(k, n); ok {
		return []item{{value: v, at: place(n)}}
	}
	return nil
}

// place returns where a value begins in the file.
func place(n yamldoc.Node) pos {
	line, col := n.Place()
	return pos{line, col}
}
