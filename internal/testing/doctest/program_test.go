package doctest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
)

const module = "github.com/agentarbor/arbor"

// TestPrograms builds the Go blocks of all pages in one module that requires
// this one, as a reader's own would, and runs the whole programs.
func TestPrograms(t *testing.T) {
	race.SkipPrograms(t)
	dir := t.TempDir()
	userModule(t, dir)
	env := append(environment(t), "GOFLAGS=-mod=mod -buildvcs=false")
	goRun := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	imports := importPaths(t)
	prelude, err := os.ReadFile(filepath.Join("testdata", "prelude.go.txt"))
	require.NoError(t, err)

	type program struct {
		name, where string
		block       block
	}
	var programs []program
	tests := []string{"test", "-count=1"}
	n := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "go" || b.file() != "" {
				continue
			}
			n++
			where := fmt.Sprintf("%s:%d", p.path, b.line)
			if len(b.words) == 1 && strings.HasPrefix(b.words[0], "in=") {
				continue
			}
			name := fmt.Sprintf("block%02d", n)
			folder := filepath.Join(dir, name)
			require.NoError(t, os.Mkdir(folder, 0o755))
			write := func(file, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644))
			}
			switch {
			case b.has("fragment"):
				text, err := wholeFile(b.code, imports)
				require.NoError(t, err, where)
				write("fragment.go", "//line "+where+"\n"+text)
				write("prelude.go", string(prelude))
			case b.has("test"):
				write("block_test.go", "//line "+where+"\n"+b.code)
				tests = append(tests, "./"+name)
			default:
				write("main.go", b.code)
				programs = append(programs, program{name, where, b})
			}
		}
	}
	require.NotZero(t, n)
	bin := t.TempDir()
	out, err := goRun("build", "./...")
	require.NoError(t, err, out)
	out, err = goRun("build", "-ldflags", "-s -w", "-o", bin+string(os.PathSeparator), "./...") // programs only
	require.NoError(t, err, out)
	for _, p := range programs {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, exe(p.name)))
		cmd.Env, cmd.Dir = env, t.TempDir()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", p.where, out)
		require.NotNil(t, p.block.output, "%s: a whole program needs an output block", p.where)
		requireOutput(t, *p.block.output, string(out))
	}
	out, err = goRun(tests...)
	require.NoError(t, err, out)
}

// userModule makes a module in a folder that only requires this one.
func userModule(t *testing.T, dir string) {
	t.Helper()
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	goMod := fmt.Sprintf("module example.com/reader\n\ngo %s\n\nrequire %s v0.0.0\n\nreplace %[2]s => %q\n", goModule(t).Go, module, here)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(goMod), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644))
}

// importPaths returns the import paths that a fragment can use, by name: all
// packages of this module, and some of the standard library.
func importPaths(t testing.TB) map[string]string {
	t.Helper()
	paths := make(map[string]string)
	for _, p := range []string{"context", "encoding/json", "errors", "fmt", "iter", "log", "log/slog", "net/http", "os", "strings", "testing", "time"} {
		paths[path.Base(p)] = p
	}
	for _, p := range packages(t) {
		paths[path.Base(p)] = module + "/" + p
	}
	return paths
}

// packages returns the packages for users, as paths from the root.
func packages(t testing.TB) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && rel != "." && (name[0] == '.' || slices.Contains([]string{"testdata", "internal", "cmd", "examples", "docs", "benchmarks"}, name)) {
			return filepath.SkipDir
		}
		if dir := filepath.ToSlash(filepath.Dir(rel)); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !slices.Contains(found, dir) {
			found = append(found, dir)
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// wholeFile makes a file of a fragment: declarations as they are, or statements
// in a function. Imports are added, and what statements declare counts as used.
func wholeFile(code string, imports map[string]string) (string, error) {
	fset := token.NewFileSet()
	body, head := code, ""
	file, err := parser.ParseFile(fset, "", "package fragment\n"+code, 0)
	if err != nil {
		head = "func _() error {\n"
		file, err = parser.ParseFile(fset, "", "package fragment\n"+head+code+"\nreturn nil\n}", 0)
		if err != nil {
			return "", err
		}
		var used strings.Builder
		for _, s := range file.Decls[0].(*ast.FuncDecl).Body.List {
			if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
				for _, left := range a.Lhs {
					if id := left.(*ast.Ident); id.Name != "_" {
						fmt.Fprintf(&used, "_ = %s; ", id.Name)
					}
				}
			}
		}
		body = code + "\n" + used.String() + "\nreturn nil\n}\n"
	}
	var lines []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok && imports[id.Name] != "" && id.Obj == nil {
				lines = append(lines, fmt.Sprintf("import %q; ", imports[id.Name]))
			}
		}
		return true
	})
	slices.Sort(lines)
	return "package fragment; " + strings.Join(slices.Compact(lines), "") + head + body, nil
}

// TestBlocksInFiles checks that a block which a page shows as part of a file, such as a script, is in that file.
func TestBlocksInFiles(t *testing.T) {
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if len(b.words) != 1 || !strings.HasPrefix(b.words[0], "in=") {
				continue
			}
			where := fmt.Sprintf("%s:%d", p.path, b.line)
			text, err := os.ReadFile(filepath.Join(root, strings.TrimPrefix(b.words[0], "in=")))
			require.NoError(t, err, where)
			require.Contains(t, dedent(string(text)), strings.TrimSpace(dedent(b.code)), where)
		}
	}
}
