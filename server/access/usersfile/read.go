package usersfile

import (
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// maxFile is the limit of the file, and maxName that of a name, in bytes.
const maxFile, maxName = 4 << 20, 64

const form = "a users file is a list of entries such as {name: ann, token: sha256:…, may: [inspect]}"

// Error reports that a file is invalid. Its Problems are sorted by line.
type Error = yamldoc.Error

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
	r := &reader{names: map[string]namedAt{access.Skeleton(session.DefaultUser): {name: session.DefaultUser}}, tokens: make(map[access.Hash]int)}
	r.File = path
	for i, doc := range r.Documents(data, maxFile) {
		if i > 0 || doc.Kind() != yamldoc.List {
			r.Add(doc, form)
			continue
		}
		for i := range doc.Len() {
			r.user(doc.Item(i))
		}
	}
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	return r.accounts, r.lines, nil
}

// namedAt is the name of a user and its line.
type namedAt struct {
	name string
	line int
}

type reader struct {
	yamldoc.Decoder
	accounts []access.Account
	lines    []int
	names    map[string]namedAt // by their skeletons
	tokens   map[access.Hash]int
}

func (r *reader) user(entry yamldoc.Node) {
	if entry.Kind() != yamldoc.Mapping {
		r.Add(entry, form)
		return
	}
	var who access.Account
	found := r.Mapping([]yamldoc.Key{
		yamldoc.Custom("name", "a text", "ann", func(k *yamldoc.Key, n yamldoc.Node) { who.Name = r.name(k, n) }),
		yamldoc.Custom("token", "a text", "", func(_ *yamldoc.Key, n yamldoc.Node) { who.Token = r.token(n) }),
		yamldoc.Custom("may", "a list of rights", "["+strings.Join(access.All.Names(), ", ")+"]", func(k *yamldoc.Key, n yamldoc.Node) {
			if n.Kind() != yamldoc.Nothing {
				r.List(k, n, func(right string, n yamldoc.Node) {
					rights, grants, err := access.ReadRights(right)
					if err != nil {
						r.Add(n, "%s", err)
					}
					who.Rights, who.Grants = who.Rights|rights, append(who.Grants, grants...)
				})
			}
		}),
	}, "", entry)
	for _, needed := range []string{"name", "token"} {
		if _, ok := found[needed]; !ok {
			r.Add(entry, "the %s is missing: "+form, needed)
		}
	}
	r.accounts, r.lines = append(r.accounts, who), append(r.lines, entry.Line())
}

func (r *reader) name(k *yamldoc.Key, n yamldoc.Node) string {
	name, ok := n.Text()
	if !ok {
		r.WrongType(k, n)
		return ""
	}
	shape := access.Skeleton(name)
	err, other := checkName(name), r.names[shape]
	switch {
	case err != nil:
		r.Add(n, "%s", err)
	case other.name == name:
		r.Add(n, "the user %s is already on line %d", name, other.line)
	case other.name == session.DefaultUser:
		r.Add(n, "the name %q looks like %s, the owner of this machine: choose another name", name, other.name)
	case other.name != "":
		r.Add(n, "the name %q looks like %q on line %d: choose another name", name, other.name, other.line)
	default:
		r.names[shape] = namedAt{name, n.Line()}
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

func (r *reader) token(n yamldoc.Node) access.Hash {
	text, _ := n.Text()
	hash, err := access.ParseHash(text)
	if err != nil { // the text may be the token itself
		r.Add(n, "%s", err)
		return hash
	}
	if line := r.tokens[hash]; line > 0 {
		r.Add(n, "the user of line %d has the same token", line)
	}
	r.tokens[hash] = n.Line()
	return hash
}
