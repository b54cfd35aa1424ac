package sqlite

import (
	"errors"
	"os"
	"path/filepath"
)

// errMoved says that what was written is not where whoever opens the path next will look for it.
var errMoved = errors.New("the file, or the -wal file next to it, was removed or replaced while it was open: restore it, or end all programs that use it and start them again")

// place is where a database is: its file and its write-ahead log. Both stay as long as the store has it open, and SQLite
// itself does not notice if somebody removes or replaces them: it goes on with the files that it has open.
type place struct {
	paths [2]string
	files [2]os.FileInfo
}

func newPlace(path string) (*place, error) {
	own, err := filepath.EvalSymlinks(path) // SQLite puts the log beside what a link leads to
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

// check returns errMoved if one of the files is another one now, or gone.
func (p *place) check() error {
	for i, path := range p.paths {
		if file, err := os.Stat(path); err != nil || !os.SameFile(file, p.files[i]) {
			return errMoved
		}
	}
	return nil
}
