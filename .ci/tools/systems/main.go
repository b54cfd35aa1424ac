// Command systems type checks the packages of the module in the current folder, with their tests, as if they were
// compiled for the operating systems in its arguments. It reads imported packages from source without function bodies
// and compiles nothing. That takes seconds, whereas go vet compiles every dependency for each system.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, system := range os.Args[1:] {
		faults, err := check(".", system)
		if err != nil {
			faults = append(faults, err.Error())
		}
		for _, fault := range faults {
			fmt.Printf("%s: %s\n", system, fault)
		}
		failed = failed || len(faults) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// check returns the errors in the packages of a folder on a system.
func check(dir, system string) (faults []string, err error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	inside := func(file string) bool { return strings.HasPrefix(file, root+string(filepath.Separator)) }
	config := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:   root,
		Env:   append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		Tests: true,
		ParseFile: func(set *token.FileSet, name string, source []byte) (*ast.File, error) {
			file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
			if file != nil && !inside(name) {
				for _, d := range file.Decls {
					if f, ok := d.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}
	all, err := packages.Load(config, "./...")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range all {
		if strings.HasSuffix(p.ID, ".test") {
			continue // go test generates its main package
		}
		for _, e := range p.Errors {
			if text := strings.ReplaceAll(e.Error(), root+string(filepath.Separator), ""); !seen[text] {
				seen[text] = true
				faults = append(faults, text)
			}
		}
	}
	return faults, nil
}
