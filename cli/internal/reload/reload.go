// Package reload loads a tree again when its files change.
package reload

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/watch"
	"github.com/agentarbor/arbor/internal/render"
)

// Flag adds --no-reload to a command whose tree comes from files.
func Flag(f *factory.Factory, fs *pflag.FlagSet, off *bool) {
	if !f.Embedded() {
		fs.BoolVar(off, "no-reload", false, "do not reload the tree when its files change")
	}
}

// Watched contains the watched files of a tree, or the error of watching them.
type Watched struct {
	folder *watch.Folder
	err    error
}

// Watch starts watching the files of the tree at path before they are read. It returns nil if off is set, or the tree
// is part of the program.
func Watch(f *factory.Factory, path string, off bool) *Watched {
	if off || f.Embedded() {
		return nil
	}
	folder, err := watch.New(folderOf(path), ".md", ".yaml", ".yml")
	if err == nil {
		f.AtEnd(func() { _ = folder.Close() })
	}
	return &Watched{folder, err}
}

// Noticed reports whether KeepUp will notice changes of the files.
func (w *Watched) Noticed() bool { return w != nil && w.err == nil }

// KeepUp calls renew after each change of the files until the command ends, and prints the results to w. If renew
// fails, the tree remains as it is, and KeepUp prints the error once.
func KeepUp(ctx context.Context, f *factory.Factory, files *Watched, w io.Writer, renew func() (*agent.Tree, error)) {
	if files == nil {
		return
	}
	if files.err != nil {
		f.SayTo(w, "changes of the files are not noticed: "+files.err.Error())
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	f.AtEnd(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		told := ""
		for {
			if err := files.folder.Next(ctx); err != nil {
				if ctx.Err() == nil {
					f.SayTo(w, "changes of the files are not noticed any more: "+err.Error())
				}
				return
			}
			tree, err := renew()
			if err == nil {
				told = ""
				f.SayTo(w, fmt.Sprintf("the files have changed: %s with %s from now on", tree.Root().Agent.Name(), render.Count(tree.Len(), "agent")))
				continue
			}
			lines := append([]string{"the files have changed and cannot be used; the tree stays as it was"}, factory.ProblemLines(err)...)
			if now := strings.Join(lines, "\n"); now != told {
				told = now
				f.SayTo(w, lines...)
			}
		}
	}()
}

// folderOf returns the folder with a tree's files.
func folderOf(path string) string {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // resolve links to the file
		path = real
	}
	return filepath.Dir(path)
}
