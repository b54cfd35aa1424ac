package usersfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/session"
)

// maxFile is the limit of the file, and maxName that of a name, in bytes.
const maxFile, maxName = 4 << 20, 64

const form = "a users file must be a list of entries such as {name: ann, token: sha256:…, may: [inspect]}"

var rules = yamldoc.Rules{Tokens: 1_000_000, Depth: 4, Flow: 4, Keys: 16, Documents: 1,
	NoAliases: "a users file must not have anchors and aliases: write the value",
	NoTags:    "a users file must not have tags", NoDirectives: "a users file must not have directives"}

// Error reports that a file is invalid. Its Problems are in the order in which they were found.
type Error struct{ Problems []yamldoc.Problem }

// Error returns one problem per line.
func (e *Error) Error() string { return yamldoc.Lines(e.Problems, yamldoc.Problem.String) }

// Read returns the users of a file. The error is an *[Error] with all mistakes, or that of the file system. No error
// contains the text in the place of a token.
func Read(path string) ([]access.Account, error) {
	data, err := load(path)
	if err != nil {
		return nil, err
	}
	accounts, _, err := parse(path, data)
	return accounts, err
}

func load(path string) ([]byte, error) { return confined.Read(path, maxFile+1) }

// parse returns the users, and the lines on which their entries start.
func parse(path string, data []byte) (accounts []access.Account, lines []int, err error) {
	r := &reader{path: path, names: map[string]namedAt{access.Skeleton(session.DefaultUser): {name: session.DefaultUser}}, tokens: make(map[access.Hash]int)}
	text, problem := yamldoc.Decode(data, maxFile)
	if problem != nil {
		r.addAt(problem.Line, problem.Col, problem.Message)
		return nil, nil, failed(r.problems...)
	}
	file, problems := yamldoc.Parse(text, rules)
	for _, p := range problems {
		r.addAt(p.Line, p.Col, p.Message)
	}
	if file != nil {
		for _, doc := range file.Documents {
			r.list(doc)
		}
	}
	if len(r.problems) > 0 {
		return nil, nil, failed(r.problems...)
	}
	return r.accounts, r.lines, nil
}

// namedAt is the name of a user and its line.
type namedAt struct {
	name string
	line int
}

type reader struct {
	path     string
	accounts []access.Account
	lines    []int
	names    map[string]namedAt // by their skeletons
	tokens   map[access.Hash]int
	problems []yamldoc.Problem
}

func (r *reader) add(at yamldoc.Node, format string, a ...any) {
	line, col := at.Place()
	r.addAt(line, col, fmt.Sprintf(format, a...))
}

func (r *reader) addAt(line, col int, message string) {
	r.problems = append(r.problems, yamldoc.Problem{File: r.path, Line: line, Col: col, Message: message, Exact: true})
}

func failed(problems ...yamldoc.Problem) error { return &Error{problems} }

func (r *reader) list(doc yamldoc.Node) {
	switch doc.Kind() {
	case yamldoc.Nothing:
		return
	case yamldoc.List:
	default:
		r.add(doc, "%s", form)
		return
	}
	for i := range doc.Len() {
		r.user(doc.Item(i))
	}
}

var keys = []string{"name", "token", "may"}

func (r *reader) user(entry yamldoc.Node) {
	if entry.Kind() != yamldoc.Mapping {
		r.add(entry, "%s", form)
		return
	}
	var who access.Account
	values := make(map[string]yamldoc.Node, len(keys))
	for i := range entry.Len() {
		pair := entry.Pair(i)
		key, _ := pair.Key.Name()
		_, twice := values[key]
		switch {
		case !slices.Contains(keys, key):
			r.add(pair.Key, "unknown key %.40q%s", key, nearest.Hint(key, keys))
		case twice:
			r.add(pair.Key, "the key %s occurs twice", key)
		default:
			values[key] = pair.Value
		}
	}
	who.Name = r.name(entry, values)
	who.Token = r.token(entry, values)
	who.Rights, who.Grants = r.may(values["may"])
	r.accounts, r.lines = append(r.accounts, who), append(r.lines, entry.Line())
}

func (r *reader) name(entry yamldoc.Node, values map[string]yamldoc.Node) string {
	value, ok := values["name"]
	if !ok {
		r.add(entry, "the name is missing")
		return ""
	}
	name, ok := value.Text()
	if !ok {
		r.add(value, "the name must be a string, not %s: put it in quotes", value.Describe())
		return ""
	}
	shape := access.Skeleton(name)
	err, other := checkName(name), r.names[shape]
	switch {
	case err != nil:
		r.add(value, "%s", err)
	case other.name == name:
		r.add(value, "the user %s is already on line %d", name, other.line)
	case other.name == session.DefaultUser:
		r.add(value, "the name %q looks like %s, the owner of this machine: choose another name", name, other.name)
	case other.name != "":
		r.add(value, "the name %q looks like %q on line %d: choose another name", name, other.name, other.line)
	default:
		r.names[shape] = namedAt{name, value.Line()}
	}
	return name
}

// checkName refuses the name of the owner, long names, and names that [access.CheckName] refuses.
func checkName(name string) error {
	wrong := access.CheckName(name)
	switch {
	case name == session.DefaultUser:
		return fmt.Errorf("%s is the owner of this machine, whose token cannot be in this file", name)
	case name == "" || len(name) > maxName:
		return fmt.Errorf("%.80q cannot be a name: it must have 1 to %d bytes", name, maxName)
	case wrong != nil:
		return fmt.Errorf("%.80q cannot be a name: %w", name, wrong)
	}
	return nil
}

func (r *reader) token(entry yamldoc.Node, values map[string]yamldoc.Node) access.Hash {
	value, ok := values["token"]
	if !ok {
		r.add(entry, "the token is missing: write sha256: and the 64 hexadecimal digits of the token's hash")
		return access.Hash{}
	}
	text, _ := value.Text()
	hash, err := access.ParseHash(text)
	if err != nil { // the text may be the token itself
		r.add(value, "%s", err)
		return hash
	}
	if line := r.tokens[hash]; line > 0 {
		r.add(value, "the user of line %d has the same token", line)
	}
	r.tokens[hash] = value.Line()
	return hash
}

func (r *reader) may(value yamldoc.Node) (rights access.Rights, grants []string) {
	if value.Kind() != yamldoc.List && value.Kind() != yamldoc.Nothing {
		r.add(value, "may must be a list of rights, such as [%s]", strings.Join(access.All.Names(), ", "))
		return 0, nil
	}
	for i := range value.Len() {
		item := value.Item(i)
		name, _ := item.Text()
		right, grant, err := access.ReadRights(name)
		if _, text := item.Text(); !text {
			r.add(item, "%s is not a right", item.Describe())
		} else if err != nil {
			r.add(item, "%s", err)
		}
		rights, grants = rights|right, append(grants, grant...)
	}
	return rights, grants
}
