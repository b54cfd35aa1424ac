// Command touched prints which parts of the repository of the current folder a change touches, in three lines: packages
// of the module, packages that import those whose code changed or whose tests do so, and other modules.
//
// The change consists of all differences from the commit at which the branch left main, including uncommitted ones. On
// main it starts at the last commit but one. A file belongs to the package of its folder, or else of the nearest folder
// above.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// belongs maps folders without a package to the package or module that tests them. All other files are documentation.
var belongs = map[string]string{".ci": ".ci/tools", ".": "internal/testing/doctest"}

// change contains the touched folders, relative to the repository.
type change struct{ packages, importers, modules []string }

func main() {
	c, err := find()
	if err != nil {
		fmt.Fprintln(os.Stderr, "touched:", err)
		os.Exit(1)
	}
	for _, folders := range [][]string{c.packages, c.importers, c.modules} {
		fmt.Println(strings.Join(folders, " "))
	}
}

func find() (*change, error) {
	files, err := changedFiles()
	if err != nil {
		return nil, err
	}
	imports, err := listPackages()
	if err != nil {
		return nil, err
	}
	c, touched, code := &change{}, map[string]bool{}, map[string]bool{}
	for _, file := range files {
		folder := owner(path.Dir(file), imports)
		touched[folder] = true
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			code[folder] = true
		}
	}
	for folder := range touched {
		if _, ok := imports[folder]; !ok {
			c.modules = append(c.modules, folder)
		}
	}
	for folder, imported := range imports {
		if touched[folder] {
			c.packages = append(c.packages, "./"+folder)
		} else if slices.ContainsFunc(imported, func(other string) bool { return code[other] }) {
			c.importers = append(c.importers, "./"+folder)
		}
	}
	for _, folders := range [][]string{c.packages, c.importers, c.modules} {
		slices.Sort(folders)
	}
	return c, nil
}

// owner returns the folder of the package, or of the other module, to which the files of a folder belong.
func owner(folder string, imports map[string][]string) string {
	for {
		if _, ok := imports[folder]; ok {
			return folder
		}
		if other, ok := belongs[folder]; ok {
			return other
		}
		if _, err := os.Stat(path.Join(folder, "go.mod")); err == nil {
			return folder
		}
		folder = path.Dir(folder)
	}
}

// changedFiles returns the files of the change.
func changedFiles() ([]string, error) {
	branch, err := output("git", "rev-parse", "--abbrev-ref", "HEAD")
	if err != nil {
		return nil, err
	}
	base := "HEAD~1"
	if branch != "main" {
		if base, err = output("git", "merge-base", "HEAD", "main"); err != nil {
			return nil, err
		}
	}
	tracked, err := output("git", "diff", "-z", "--name-only", "--no-renames", base)
	if err != nil {
		return nil, err
	}
	untracked, err := output("git", "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(tracked+untracked, func(r rune) bool { return r == 0 }), nil
}

// listPackages returns the folders of all packages, each with the folders of the packages that it imports.
func listPackages() (map[string][]string, error) {
	out, err := output("go", "list", "-f", `{{.Module.Path}}/ {{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "./...")
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		for i := range words[1:] {
			words[i+1] = strings.TrimPrefix(words[i+1], words[0])
		}
		all[words[1]] = words[2:]
	}
	return all, nil
}

// output runs a command and returns its output without a final newline.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
