package sqlite

import (
	"errors"
	"os"
	"path/filepath"
)

// errMoved reports that the store has written to a file that is no longer at its path.
var errMoved = errors.New("the file, or the -wal file next to it, was removed or replaced while it was open: restore it, or end all programs that use it and start them again")

// place identifies the database's file and its write-ahead log. Both stay at their paths while the store has them
// open. SQLite does not notice if another program removes or replaces them: it continues with the open files.
type place struct {
	paths [2]string
	files [2]os.FileInfo
}

func newPlace(path string) (*place, error) {
	own, err := filepath.EvalSymlinks(path) // SQLite creates the log next to the target of a link
	if err != nil {
		return nil, err
	}
	p := &place{paths: [2]string{path, own + "-wal"}}
	for i, path := range p.paths {
		if p.files[i], err = os.Stat(path); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// check returns errMoved if one of the files is missing or is another file.
func (p *place) check() error {
	for i, path := range p.paths {
		if file, err := os.Stat(path); err != nil || !os.SameFile(file, p.files[i]) {
			return errMoved
		}
	}
	return nil
}
