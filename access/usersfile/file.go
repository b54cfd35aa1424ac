package usersfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/agentarbor/arbor/access"
)

// interval is how often the file is looked at. It is read and compared, because the times that
// file systems keep are coarse, and some keep none.
const interval = time.Second

// File is a file whose users are kept up to date.
type File struct {
	path     string
	optional bool
	own      []access.Account
	accounts *access.Accounts
	users    int
	last     []byte // as it was read last; nil if it was never there
	seen     []byte // as it was looked at last
	told     string
}

// Open reads a file. The accounts given stay besides those of the file, such as that of the
// owner. An optional file need not be there yet. The error is that of [Read], or of
// [access.NewAccounts].
func Open(path string, optional bool, own ...access.Account) (*File, error) {
	accounts, err := access.NewAccounts(own...)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, optional: optional, own: own, accounts: accounts}
	data, err := load(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = f.take(data)
	}
	return f, err
}

// Accounts are the users of the file and those given to [Open].
func (f *File) Accounts() *access.Accounts { return f.accounts }

// Readable reports whether others than the file's owner can read it, and with what it holds make
// sign-ins of its users.
func (f *File) Readable() bool {
	info, err := os.Stat(f.path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

// Follow looks at the file every second, until ctx ends. When it has changed, and is the same for
// a second, its users are those from then on, and told is called with how many there are. If it
// cannot be used, the users stay as they were, and told is called once with why. Only one goroutine
// may call it.
func (f *File) Follow(ctx context.Context, told func(users int, err error)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := f.look()
		switch {
		case err != nil && err.Error() != f.told:
			f.told = err.Error()
			told(0, err)
		case changed:
			f.told = ""
			told(f.users, nil)
		}
	}
}

// look takes the file if it has changed.
func (f *File) look() (changed bool, err error) {
	data, err := load(f.path)
	if f.optional && f.last == nil && errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		f.seen = nil // when it comes back that is told
		return false, err
	}
	settled := f.seen != nil && bytes.Equal(data, f.seen) // nobody is just writing it
	f.seen = append([]byte{}, data...)
	if !settled || f.told == "" && f.last != nil && bytes.Equal(data, f.last) {
		return false, nil
	}
	err = f.take(data)
	return err == nil, err
}

func (f *File) take(data []byte) error {
	users, _, err := parse(f.path, data)
	if err == nil {
		err = f.accounts.Replace(append(users, f.own...)...)
	}
	if err == nil {
		f.users, f.last = len(users), append([]byte{}, data...)
	}
	return err
}
