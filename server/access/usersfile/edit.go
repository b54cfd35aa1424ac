package usersfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/replace"
	"github.com/agentarbor/arbor/server/access"
)

// ErrNoUser is the error of [Remove] for a user that is not in the file.
var ErrNoUser = errors.New("the user does not exist")

// ErrExists is the error of [Add] for a user that is in the file already.
var ErrExists = errors.New("the user exists already")

// Add adds a user to a file and returns the user's token, of 130 random bits. The file contains only the hash of the
// token. If the file does not exist, Add creates it. Add and [Remove] of several processes wait for each other.
func Add(path, name string, rights access.Rights, grants ...string) (token string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	token = rand.Text()
	who := access.Account{Name: name, Token: access.HashToken(token), Rights: rights, Grants: grants}
	entry := fmt.Sprintf("- name: %s\n  token: %s\n", quoted(name), who.Token)
	if may := (access.User{Rights: rights, Grants: grants}).RightNames(); len(may) > 0 {
		entry += "  may: [" + strings.Join(may, ", ") + "]\n"
	}
	err = edit(path, true, func(text string, users []access.Account, _ []int) (string, []access.Account, error) {
		if find(users, name) >= 0 {
			return "", nil, fmt.Errorf("%s: %w: %s", path, ErrExists, name)
		}
		for _, other := range users {
			if access.Skeleton(other.Name) == access.Skeleton(name) {
				return "", nil, fmt.Errorf("%s: the name %q looks like %q, which another user has: choose another name", path, name, other.Name)
			}
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + entry, append(users, who), nil
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// Remove removes a user from a file. The rest of the file, including comments, stays unchanged.
func Remove(path, name string) error {
	return edit(path, false, func(text string, users []access.Account, lines []int) (string, []access.Account, error) {
		i := find(users, name)
		if i < 0 {
			return "", nil, fmt.Errorf("%s: %w: %.80q", path, ErrNoUser, name)
		}
		all := strings.SplitAfter(text, "\n")
		end := len(all)
		if i+1 < len(lines) {
			end = lines[i+1] - 1
		}
		begin := lines[i] - 1
		for end > begin+1 && isComment(all[end-1]) {
			end-- // a comment before the next entry is about that one
		}
		return strings.Join(slices.Delete(all, begin, end), ""), slices.Delete(users, i, i+1), nil
	})
}

func find(users []access.Account, name string) int {
	return slices.IndexFunc(users, func(a access.Account) bool { return a.Name == name })
}

func isComment(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

// quoted returns a name as YAML, in quotes unless it is a string without them.
func quoted(name string) string {
	plain := func(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	if !strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(name)) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", "''") + "'"
}

// edit replaces the text of a file by the result of change, which also returns the expected users. If the new text does
// not contain exactly these users, because a person has written the file in another form, edit returns an error and
// writes nothing.
func edit(path string, create bool, change func(text string, users []access.Account, lines []int) (string, []access.Account, error)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	data, err := load(path)
	if err != nil && !(create && errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	users, lines, err := parse(path, data)
	if err != nil {
		return err
	}
	text, want, err := change(string(data), users, lines)
	if err != nil {
		return err
	}
	if got, _, err := parse(path, []byte(text)); err != nil || !slices.EqualFunc(got, want, func(a, b access.Account) bool { return reflect.DeepEqual(a, b) }) {
		return fmt.Errorf("%s is not a list whose entries start with \"- \" at the start of a line: edit it manually", path)
	}
	return replace.File(path, []byte(text), 0o600)
}
