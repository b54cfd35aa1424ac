// Package revisions reads a folder in the revisions of a git repository. It runs git, changes nothing in the
// repository, and reads files as they are stored: it runs no filter, hook, pager or other program of a configuration.
package revisions

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Folder is a folder of a repository.
type Folder struct {
	top, prefix string // prefix is slash-separated, "." for the whole repository
	getenv      func(string) string
}

// Revision is a commit.
type Revision struct {
	ID      string `json:"commit"`
	Subject string `json:"subject"`
	Author  string `json:"author"`
	Date    string `json:"date"` // in RFC 3339
}

// Short returns the abbreviated id of the revision.
func (r Revision) Short() string { return r.ID[:min(len(r.ID), 10)] }

// Open finds the repository of a folder. getenv returns the PATH on which git is looked up.
func Open(ctx context.Context, dir string, getenv func(string) string) (*Folder, error) {
	f := &Folder{top: dir, getenv: getenv}
	out, err := f.git(ctx, "rev-parse", "--show-toplevel", "--show-prefix")
	if err != nil {
		return nil, fmt.Errorf("%s is in no git repository: %w", dir, err)
	}
	top, prefix, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	f.top, f.prefix = filepath.FromSlash(top), path.Clean(prefix)
	return f, nil
}

// Between returns the revision good and the later ones up to bad that changed the folder, the oldest first. It follows
// only the first parent of merges, so that a branch is one revision. It returns an error if good is not older than bad,
// or no revision changed the folder.
func (f *Folder) Between(ctx context.Context, good, bad string) ([]Revision, error) {
	from, err := f.find(ctx, good)
	if err != nil {
		return nil, err
	}
	to, err := f.find(ctx, bad)
	if err != nil {
		return nil, err
	}
	if from == to {
		return nil, fmt.Errorf("%s and %s are the same revision", good, bad)
	}
	if _, err := f.git(ctx, "merge-base", "--is-ancestor", from, to); err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
			return nil, fmt.Errorf("%s is not older than %s: nothing leads from one to the other", good, bad)
		}
		return nil, err
	}
	format := "--format=%H%x00%s%x00%an%x00%aI"
	head, err := f.git(ctx, "log", "--no-show-signature", "-1", format, from)
	if err != nil {
		return nil, err
	}
	rest, err := f.git(ctx, "log", "--no-show-signature", "--first-parent", "--reverse", format, from+".."+to, "--", f.prefix)
	if err != nil {
		return nil, err
	}
	var all []Revision
	for line := range strings.Lines(string(head) + string(rest)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(parts) != 4 {
			return nil, fmt.Errorf("git log: %q", line)
		}
		all = append(all, Revision{parts[0], parts[1], parts[2], parts[3]})
	}
	if len(all) == 1 {
		return nil, fmt.Errorf("nothing in the folder was changed between %s and %s", good, bad)
	}
	return all, nil
}

// find returns the id of the commit that a name refers to.
func (f *Folder) find(ctx context.Context, word string) (string, error) {
	if word == "" || strings.HasPrefix(word, "-") {
		return "", fmt.Errorf("%q is not a revision", word)
	}
	out, err := f.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", word+"^{commit}")
	if err != nil {
		if errors.As(err, new(*exec.ExitError)) {
			return "", fmt.Errorf("there is no revision %q", word)
		}
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// Diff returns the differences of the folder in two revisions.
func (f *Folder) Diff(ctx context.Context, a, b Revision) (string, error) {
	out, err := f.git(ctx, "diff", "--no-ext-diff", "--no-textconv", "--no-color", a.ID, b.ID, "--", f.prefix)
	return string(out), err
}

// The limits of what is written of one revision.
const (
	mostFiles = 20_000
	mostBytes = 256 << 20
)

// Write writes the folder's files of a revision to an empty folder. Links within the folder remain links. It writes
// nothing outside of dir.
func (f *Folder) Write(ctx context.Context, r Revision, dir string) error {
	// It does not use git archive, which runs filters and omits files by attributes.
	list, err := f.git(ctx, "ls-tree", "-r", "-z", r.ID, "--", f.prefix+"/")
	if f.prefix == "." {
		list, err = f.git(ctx, "ls-tree", "-r", "-z", r.ID)
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var files []file
	var ask bytes.Buffer
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		about, name, ok := strings.Cut(entry, "\t")
		parts := strings.Fields(about) // mode, type, id
		if !ok || len(parts) != 3 || parts[1] != "blob" {
			continue // the content of a submodule is not available
		}
		if f.prefix != "." {
			name = strings.TrimPrefix(name, f.prefix+"/")
		}
		files = append(files, file{filepath.FromSlash(name), parts[0]})
		ask.WriteString(parts[2] + "\n")
	}
	if len(files) == 0 {
		return fmt.Errorf("the folder is not in revision %s", r.Short())
	}
	if len(files) > mostFiles {
		return fmt.Errorf("the folder has more than %d files in revision %s", mostFiles, r.Short())
	}
	cmd := f.command(ctx, "cat-file", "--batch")
	cmd.Stdin = &ask
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return missing(err)
	}
	if err := r.unpack(root, files, bufio.NewReader(said)); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	return cmd.Wait()
}

// file is a file of a revision. Its mode says whether it is a link.
type file struct{ name, mode string }

// unpack writes the files in the output of git cat-file --batch.
func (r Revision) unpack(root *os.Root, files []file, in *bufio.Reader) error {
	left := int64(mostBytes)
	for _, file := range files {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		parts := strings.Fields(line) // id, type, size
		if len(parts) != 3 {
			return fmt.Errorf("git cat-file: %q", strings.TrimSpace(line))
		}
		size, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil || size < 0 || size > left {
			return fmt.Errorf("the folder has more than %d MiB in revision %s", mostBytes>>20, r.Short())
		}
		left -= size
		data := make([]byte, size)
		if _, err := io.ReadFull(in, data); err != nil {
			return err
		}
		if _, err := in.Discard(1); err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(file.name), 0o700); err != nil {
			return err
		}
		if file.mode == "120000" {
			err = root.Symlink(string(data), file.name)
		} else {
			err = root.WriteFile(file.name, data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// command returns a git command that prompts for nothing and runs no other program.
func (f *Folder) command(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{"--no-pager", "-C", f.top, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull,
		"-c", "log.showSignature=false", "-c", "protocol.allow=never"}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = []string{"PATH=" + f.getenv("PATH"), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_LITERAL_PATHSPECS=1", "GIT_NO_LAZY_FETCH=1"}
	return cmd
}

func (f *Folder) git(ctx context.Context, args ...string) ([]byte, error) {
	var out, says bytes.Buffer
	cmd := f.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &says
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		line, _, _ := strings.Cut(strings.TrimSpace(says.String()), "\n")
		if line == "" {
			return nil, missing(err)
		}
		return nil, fmt.Errorf("git %s: %s", args[0], line)
	}
	return out.Bytes(), nil
}

// missing returns a clear error if git is not installed.
func missing(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("git is needed, and is not installed where PATH looks")
	}
	return err
}
