package agentfile

import (
	"math"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// The readers of values. Each reports a value of the wrong type itself.

func (p *parser) wrongType(k *key, n yamldoc.Node) {
	if n.Kind() == yamldoc.Nothing {
		p.add(p.keyAt, "%s has no value: it must be %s; remove the key if none is meant", p.name, k.typ)
		return
	}
	example := ""
	if k.example != "" && k.typ != "true or false" {
		example = " such as " + k.example
	}
	if k.secret {
		p.add(p.at(n), "%s must be %s%s", p.name, k.typ, example)
		return
	}
	p.add(p.at(n), "%s must be %s%s, not %s", p.name, k.typ, example, describe(n))
}

// text reads a text that is not blank.
func (p *parser) text(k *key, n yamldoc.Node) (string, bool) {
	v, ok := textOf(n)
	switch {
	case !ok:
		p.wrongType(k, n)
	case strings.TrimSpace(v) == "":
		p.add(p.at(n), "%s is empty: remove the key if none is meant", p.name)
		ok = false
	}
	return v, ok
}

// textOf returns a text, without the line ends below one whose lines begin below it.
func textOf(n yamldoc.Node) (string, bool) {
	v, ok := n.Text()
	if n.Block() != "" {
		v = strings.TrimRight(v, "\n")
	}
	return v, ok
}

// list reads a list of texts.
func (p *parser) list(k *key, n yamldoc.Node) (items []item) {
	if n.Kind() != yamldoc.List {
		p.wrongType(k, n)
		return nil
	}
	for i := range n.Len() {
		v := n.Item(i)
		at := p.at(v)
		s, ok := textOf(v)
		switch {
		case !ok:
			p.add(at, "%s must be %s, but one of them is %s", p.name, k.typ, describe(v))
		case s == "":
			p.add(at, "%s holds an empty text", p.name)
		default:
			items = append(items, item{value: s, at: at})
		}
	}
	return items
}

// names reads a list of texts without duplicates.
func (p *parser) names(k *key, n yamldoc.Node) (items []item) {
	seen := map[string]bool{}
	for _, i := range p.list(k, n) {
		if seen[i.value] {
			p.add(i.at, "%s names %q twice", p.name, i.value)
			continue
		}
		seen[i.value] = true
		items = append(items, i)
	}
	return items
}

func (p *parser) integer(k *key, n yamldoc.Node) (int64, bool) {
	v, ok := n.Whole()
	if !ok {
		p.wrongType(k, n)
	}
	return v, ok
}

func (p *parser) atLeastOne(k *key, n yamldoc.Node, v int64) bool {
	if v < 1 || v > math.MaxInt32 {
		p.add(p.at(n), "%s must be a whole number from 1, not %d", p.name, v)
		return false
	}
	return true
}

func (p *parser) number(k *key, n yamldoc.Node) (float64, bool) {
	v, ok := n.Number()
	if !ok {
		p.wrongType(k, n)
	}
	return v, ok
}

// describe says what a value is, in the words of the reference.
func describe(n yamldoc.Node) string {
	switch n.Kind() {
	case yamldoc.Text:
		if v, _ := n.Text(); n.Block() == "" && len(v) <= 40 {
			return strconv.Quote(v)
		}
		return "a text"
	case yamldoc.Bool:
		return n.Written()
	}
	return n.Describe()
}

// at returns where a value begins in the file.
func (p *parser) at(n yamldoc.Node) pos {
	line, col := n.Place()
	return pos{line, col}
}
