package agentgraph

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// MaxFile is the largest file in bytes that is read.
const MaxFile = 4 << 20

var rules = yamldoc.Rules{Tokens: 1_000_000, Depth: 64, Keys: 1_000, Documents: 100, Aliases: 10_000}

// reader reads the documents of one file, and collects what is wrong.
type reader struct {
	yamldoc.Decoder        // whose Name is the path of the key that is being read
	file            string // for problems; empty for the graph's own file
	lines           int    // of the file
	prefix          string // of paths, in documents that are not the graph's
	problems        []Problem
	warnings        []Problem
	hints           int
	as              Code           // of the decoder's problems; "" leaves it to the key
	table           *table         // of the mapping that is being read
	other           map[string]any // further keys of an open mapping

	depth  int // of the file's graph in others
	files  *files
	arbor  bool   // the graph is one of arbor/v1
	top    *draft // the file's graph
	drafts []*draft
	agents []AgentDocument
}

func newReader(all *files, file string, depth int) *reader {
	r := &reader{lines: 1, files: all, file: file, depth: depth}
	r.Brief, r.Floats, r.Unknown = true, true, r.unknown
	r.Report = func(line, _ int, message string) { r.add(r.code(), r.Name, line, "%s", message) }
	return r
}

// documents parses a file. It reports the problems of a wrong file, and then returns nil.
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

// code is that of the mistake that the decoder reports.
func (r *reader) code() Code {
	if r.as != "" {
		return r.as
	}
	key := leaf(r.Name)
	switch r.Mistake {
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

// wrongType is WrongType with a code.
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

// mapping reads a mapping. line is that of problems about keys that are missing.
func (r *reader) mapping(t *table, keys []yamldoc.Key, path string, n yamldoc.Node, line int) map[string]yamldoc.Pair {
	key, prefix := r.Key, join(path, "")
	r.table = t
	found := r.Mapping(keys, prefix, n)
	for _, name := range t.needs {
		if _, there := found[name]; !there {
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

// free is the key of an optional mapping of any values.
func (r *reader) free(name string, set func(map[string]any)) yamldoc.Key {
	return yamldoc.Custom(name, "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
		switch n.Kind() {
		case yamldoc.Nothing:
		case yamldoc.Mapping:
			set(r.Any(n).(map[string]any))
		default:
			r.WrongType(k, n)
		}
	})
}

// lineOf returns the line of a value, or of the key if there is no value, and 0 if the key is missing.
func lineOf(p yamldoc.Pair) int {
	switch {
	case p.Key == yamldoc.Node{}:
		return 0
	case p.Value.Kind() == yamldoc.Nothing:
		return p.Key.Line()
	}
	return p.Value.Line()
}

// unknown handles a key that the mapping does not have.
func (r *reader) unknown(keys []yamldoc.Key, name string, p yamldoc.Pair) bool {
	t, names := r.table, yamldoc.Names(keys, "")
	meant, _ := t.meant.find(name)
	future, ok := t.future.find(name)
	hint := cmp.Or(r.didYouMean(name, names), "; the keys here are "+strings.Join(names, ", "))
	switch {
	case t.foreign:
		return true
	case t.open && r.nearest(name, names) == "":
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
	r.add(CodeUnknownField, r.Name, p.Key.Line(), "unknown key %q%s", yamldoc.Short(name), hint)
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
