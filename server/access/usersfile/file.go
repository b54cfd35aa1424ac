package usersfile

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/agentarbor/arbor/server/access"
)

// interval is how often the file is read and compared. File systems store modification times coarsely or not at all.
const interval = time.Second

// File is a users file that is reloaded when it changes. Its methods are safe for concurrent use, except
// [File.Follow].
type File struct {
	path     string
	optional bool
	fixed    []access.Account
	accounts *access.Accounts
	users    int
	last     []byte // as it was read last; nil if it was never there
	seen     []byte // as it was looked at last
	reported string // the last error that Follow reported
}

// Open reads a file. The fixed accounts, such as that of the owner, exist in addition to those of the file. An optional
// file may be missing. The error is that of [Read] or of [access.NewAccounts].
func Open(path string, optional bool, fixed ...access.Account) (*File, error) {
	accounts, err := access.NewAccounts(fixed...)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, optional: optional, fixed: fixed, accounts: accounts}
	data, err := load(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = f.apply(data)
	}
	return f, err
}

// Accounts returns the users of the file and the fixed accounts of [Open].
func (f *File) Accounts() *access.Accounts { return f.accounts }

// Readable reports whether other users of the machine can read the file. With its hashes they could forge sign-ins. It is
// always false on Windows.
func (f *File) Readable() bool {
	info, err := os.Stat(f.path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

// Follow reads the file every second until ctx ends. When the file has changed and then stays unchanged for a second, its
// users replace the users before, and Follow calls report with their number. If the file is invalid, the users stay, and
// Follow calls report with the error, once for each different error. Only one goroutine may call Follow.
func (f *File) Follow(ctx context.Context, report func(users int, err error)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := f.reload()
		switch {
		case err != nil && err.Error() != f.reported:
			f.reported = err.Error()
			report(0, err)
		case changed:
			f.reported = ""
			report(f.users, nil)
		}
	}
}

// reload reads the file, and applies it if it has changed.
func (f *File) reload() (changed bool, err error) {
	data, err := load(f.path)
	if f.optional && f.last == nil && errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		f.seen = nil // the file is a change when it exists again
		return false, err
	}
	unchanged := f.seen != nil && bytes.Equal(data, f.seen) // no process is writing the file
	f.seen = append([]byte{}, data...)
	if !unchanged || f.reported == "" && f.last != nil && bytes.Equal(data, f.last) {
		return false, nil
	}
	err = f.apply(data)
	return err == nil, err
}

func (f *File) apply(data []byte) error {
	users, _, err := parse(f.path, data)
	if err == nil {
		err = f.accounts.Replace(append(users, f.fixed...)...)
	}
	if err == nil {
		f.users, f.last = len(users), append([]byte{}, data...)
	}
	return err
}
