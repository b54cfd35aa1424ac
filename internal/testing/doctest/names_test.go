package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// namesHeader begins a table from the names of another text to those of this repository.
const namesHeader = "| there | here |"

// TestNamesExist checks the tables of names: each name on the right exists, as a folder, as a Go identifier such as
// `router.Router.Explain`, as what `web/conversation` exports, or as a name in the JSON that Go code makes.
func TestNamesExist(t *testing.T) {
	dirs, declared := packages(t), map[string]map[string]bool{}
	index, err := os.ReadFile(filepath.Join(root, "web", "conversation", "src", "index.ts"))
	require.NoError(t, err)
	written := literals(t, dirs)
	exists := func(name string) bool {
		if strings.Contains(name, "/") {
			_, err := os.Stat(filepath.Join(root, name))
			return err == nil
		}
		of, rest, dotted := strings.Cut(name, ".")
		if !dotted {
			return written[name] || regexp.MustCompile(`\b`+name+`\b`).Match(index)
		}
		return slices.ContainsFunc(dirs, func(dir string) bool {
			if path.Base(dir) != of {
				return false
			}
			if declared[dir] == nil {
				declared[dir] = declarations(t, dir)
			}
			return declared[dir][rest]
		})
	}
	for _, name := range []string{"router.md", "human.md", "conversation.md"} {
		rows := 0
		in := false
		for line := range strings.Lines(doc(t, name).prose) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") {
				in = false
			} else if line == namesHeader {
				in = true
			} else if cells := strings.Split(strings.Trim(line, "|"), "|"); in && !strings.HasPrefix(line, "|--") {
				rows++
				require.Len(t, cells, 2, "%s: %s", name, line)
				names := code.FindAllStringSubmatch(link.ReplaceAllString(cells[1], "]"), -1)
				require.NotEmpty(t, names, "%s: %s", name, line)
				for _, m := range names {
					require.True(t, exists(m[1]), "%s: %s does not exist: %s", name, m[1], line)
				}
			}
		}
		require.Positive(t, rows, "%s has no table of names, which begins with %q", name, namesHeader)
	}
	for _, none := range []string{"router.Nothing", "router.Router.Nothing", "nothing.Router", "router/nothing", "nothing_at_all"} {
		require.False(t, exists(none), none)
	}
}

// literals are the texts and the names of JSON in the source of packages.
func literals(t testing.TB, dirs []string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range literal.FindAllSubmatch(source, -1) {
				all[string(m[1])] = true
			}
		}
	}
	return all
}

var code, literal = regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`"(\w+)[",]`)

// declarations are what a package exports: "Name", and of its types "Type.Method" and "Type.Field".
func declarations(t testing.TB, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	fields := func(of string, list *ast.FieldList) {
		for _, f := range list.List {
			for _, name := range f.Names {
				all[of+"."+name.Name] = true
			}
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if star, ok := of.(*ast.StarExpr); ok {
						of = star.X
					}
					if of, ok := of.(*ast.Ident); ok {
						name = of.Name + "." + name
					}
				}
				all[name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							all[name.Name] = true
						}
					case *ast.TypeSpec:
						all[spec.Name.Name] = true
						switch of := spec.Type.(type) {
						case *ast.StructType:
							fields(spec.Name.Name, of.Fields)
						case *ast.InterfaceType:
							fields(spec.Name.Name, of.Methods)
						}
					}
				}
			}
		}
	}
	for name := range all {
		for part := range strings.SplitSeq(name, ".") {
			if !ast.IsExported(part) {
				delete(all, name)
			}
		}
	}
	return all
}
