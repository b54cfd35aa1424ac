package expression

import (
	"fmt"
	"strings"
)

func (c *call) texts() ([]string, error) {
	out := make([]string, len(c.args))
	for i, a := range c.args {
		s, ok := a.(string)
		if !ok {
			return nil, c.wrong(i, "a text")
		}
		out[i] = s
	}
	return out, nil
}

func (c *call) text(m *machine, one func(string) string, two func(a, b string) string) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	work := len(s[0])
	if len(s) == 2 { // each character may be looked up in the other text
		work *= 1 + len(s[1])/16
	}
	if err := m.step(work / 64); err != nil {
		return nil, err
	}
	if len(s) == 2 {
		return two(s[0], s[1]), nil
	}
	if err := m.alloc(3 * len(s[0])); err != nil { // capital letters can be longer
		return nil, err
	}
	return one(s[0]), nil
}

func (c *call) compare(m *machine, f func(a, b string) bool) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	return f(s[0], s[1]), m.step(len(s[1]) / 64)
}

func split(m *machine, c *call) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	parts := strings.Count(s[0], s[1]) + 1
	if err := m.alloc(parts*3*sizeOfValue + len(s[0])); err != nil {
		return nil, err
	}
	out := make([]any, 0, parts)
	for _, part := range strings.Split(s[0], s[1]) {
		out = append(out, part)
	}
	return out, nil
}

func join(m *machine, c *call) (any, error) {
	list, ok := c.args[0].([]any)
	if !ok {
		return nil, c.wrong(0, "a list of texts")
	}
	between := ""
	if len(c.args) == 2 {
		if between, ok = c.args[1].(string); !ok {
			return nil, c.wrong(1, "a text")
		}
	}
	words := make([]string, 0, min(len(list), 1024))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("join needs a list of texts, and item %d is %s", i, describe(v))
		}
		if err := m.alloc(len(s) + len(between) + 2*sizeOfValue); err != nil {
			return nil, err
		}
		words = append(words, s)
	}
	return strings.Join(words, between), nil
}

func replace(m *machine, c *call) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	if err := m.step(len(s[0]) / 64); err != nil {
		return nil, err
	}
	if err := m.alloc(len(s[0])); err != nil {
		return nil, err
	}
	if found := strings.Count(s[0], s[1]); len(s[2]) > 0 && found > 0 {
		if found > MaxMemory/len(s[2]) {
			found = MaxMemory/len(s[2]) + 1
		}
		if err := m.alloc(found * len(s[2])); err != nil {
			return nil, err
		}
	}
	return strings.ReplaceAll(s[0], s[1], s[2]), nil
}
