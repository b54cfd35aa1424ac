package agentgraph

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// MaxFile is the size in bytes of the largest file that is read.
const MaxFile = 4 << 20

var rules = yamldoc.Rules{Tokens: 1_000_000, Depth: 64, Keys: 1_000, Documents: 100, Aliases: 10_000}

// reader reads the documents of one file and collects their problems.
type reader struct {
	yamldoc.Decoder        // Name is the path of the current key
	file            string // the file name in problems; empty for the graph's own file
	lines           int    // the number of lines in the file
	prefix          string // of paths, in documents other than the graph's
	problems        []Problem
	warnings        []Problem
	hints           int
	as              Code           // the code of the decoder's problems; "" derives it from the key
	table           *table         // of the current mapping
	other           map[string]any // further keys of an open mapping

	depth  int // the nesting depth of the file's graph
	files  *files
	arbor  bool   // the graph's version is arbor/v1
	top    *draft // the graph of the file
	drafts []*draft
	agents []AgentDocument
}

func newReader(all *files, file string, depth int) *reader {
	r := &reader{lines: 1, files: all, file: file, depth: depth}
	r.Brief, r.Floats, r.Unknown, r.Unclear = true, true, r.unknown, map[string]bool{}
	r.Report = func(line, _ int, message string) { r.add(r.code(), r.Name, line, "%s", message) }
	return r
}

// documents parses a file. If the file is invalid, it reports the problems and returns nil.
func (r *reader) documents(data []byte) *yamldoc.File {
	if len(data) <= MaxFile {
		r.lines = bytes.Count(data, []byte("\n")) + 1
	}
	text, problem := yamldoc.Decode(data, MaxFile)
	if problem != nil {
		r.add(CodeYAML, "", problem.Line, "%s", problem.Message)
		return nil
	}
	file, problems := yamldoc.Parse(text, rules)
	for _, p := range problems {
		r.add(CodeYAML, "", p.Line, "%s", p.Message)
	}
	return file
}

// code returns the code of the problem that the decoder reports.
func (r *reader) code() Code {
	if r.as != "" {
		return r.as
	}
	key := leaf(r.Name)
	switch r.ErrorKind {
	case yamldoc.UnknownKey:
		return CodeUnknownField
	case yamldoc.Unreadable:
		return CodeYAML
	case yamldoc.MissingValue:
		if key != "strategy" {
			return CodeMissingField
		}
	}
	switch key {
	case "apiVersion":
		return CodeWrongAPIVersion
	case "version":
		return CodeBadVersion
	case "agentRef":
		return CodeUnknownAgentRef
	case "from", "to":
		return CodeUnknownEdgeAgent
	case "entrypoint":
		return CodeUnknownEntrypoint
	case "fallbackAgent":
		return CodeUnknownFallback
	case "strategy":
		return CodeBadStrategy
	}
	return CodeYAML
}

// wrongType is like WrongType, with a problem code.
func (r *reader) wrongType(code Code, k *yamldoc.Key, n yamldoc.Node) {
	r.as = code
	r.WrongType(k, n)
	r.as = ""
}

// object reads the mapping of a key, and reports any other value.
func (r *reader) object(k *yamldoc.Key, n yamldoc.Node, t *table, keys ...yamldoc.Key) bool {
	if n.Kind() != yamldoc.Mapping {
		r.WrongType(k, n)
		return false
	}
	r.mapping(t, keys, r.Name, n, r.Key.Line())
	return true
}

// mapping reads a mapping. Problems about missing keys are on the given line.
func (r *reader) mapping(t *table, keys []yamldoc.Key, path string, n yamldoc.Node, line int) map[string]yamldoc.Pair {
	key, prefix := r.Key, join(path, "")
	r.table = t
	found := r.Mapping(keys, prefix, n)
	for _, name := range t.needs {
		if _, present := found[name]; !present {
			r.add(CodeMissingField, prefix+name, line, "%s is missing", name)
		}
	}
	r.Key, r.Name = key, path
	return found
}

// items reads each item of a list.
func (r *reader) items(k *yamldoc.Key, n yamldoc.Node, read func(yamldoc.Node)) {
	if n.Kind() != yamldoc.List {
		r.WrongType(k, n)
		return
	}
	path := r.Name
	for i := range n.Len() {
		r.Name = index(path, i)
		read(n.Item(i))
	}
	r.Name = path
}

// free returns a key for an optional mapping with any values.
func (r *reader) free(name string, set func(map[string]any)) yamldoc.Key {
	return yamldoc.Custom(name, "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
		switch n.Kind() {
		case yamldoc.Nothing:
		case yamldoc.Mapping:
			set(r.Any(n).(map[string]any))
		default:
			r.WrongType(k, n)
		}
	}).WithSchema(aMapping)
}

// lineOf returns the line of a value, or of its key if there is no value, or 0 if the key is missing.
func lineOf(p yamldoc.Pair) int {
	switch {
	case p.Key == yamldoc.Node{}:
		return 0
	case p.Value.Kind() == yamldoc.Nothing:
		return p.Key.Line()
	}
	return p.Value.Line()
}

// unknown reports a key that the mapping does not have, or keeps it if the mapping is open.
func (r *reader) unknown(keys []yamldoc.Key, name string, p yamldoc.Pair) bool {
	t, names := r.table, yamldoc.Names(keys, "")
	meant, _ := t.meant.find(name)
	future, ok := t.future.find(name)
	if meant == "" && !ok {
		meant = r.nearest(name, names)
	}
	r.Unclear[meant] = true
	hint := "; the keys here are " + strings.Join(names, ", ")
	switch {
	case t.foreign:
		return true
	case t.open && meant == "":
		r.other[name] = r.Any(p.Value)
		return true
	case meant != "":
		hint = `; did you mean "` + meant + `"?`
	case ok && t.arbor && future.key != "":
		hint = ": " + APIVersionArbor + " has " + future.key
	case ok:
		version := "AgentGraph v0.2.7"
		if hint = ""; t.arbor {
			version += " nor of " + APIVersionArbor
		} else if future.key != "" {
			hint = "; apiVersion " + APIVersionArbor + " has it: " + future.key
		}
		r.add(CodeUnknownField, r.Name, p.Key.Line(), "%q: %s not part of %s%s", name, future.what, version, hint)
		return true
	}
	r.add(CodeUnknownField, r.Name, p.Key.Line(), "unknown key %q%s", visible.Cut(name, 60), hint)
	return true
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// leaf returns the last part of a path.
func leaf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// maxHints limits how many misspelt names are compared with long lists of names, because the time grows with the
// product of both.
const maxHints = 20

// near returns the names to compare a misspelt name with, or nil if the limit is reached.
func (r *reader) near(known []string) []string {
	if r.hints >= maxHints {
		return nil
	}
	if len(known) > maxHints { // tables of keys are shorter and do not count
		r.hints++
	}
	return known
}

// nearest returns the known name that is closest to a misspelt one, or "".
func (r *reader) nearest(name string, known []string) string {
	return nearest.Of(name, r.near(known))
}

// didYouMean returns the end of a message about an unknown name.
func (r *reader) didYouMean(name string, known []string) string {
	return nearest.Hint(name, r.near(known))
}
