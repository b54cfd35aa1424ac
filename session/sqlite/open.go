package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// smallest is the size of the smallest database in bytes: one page.
const smallest = 512

// file is the database file, with the settings of its connections.
type file struct {
	path   string
	driver string        // the name of the driver in database/sql
	wait   time.Duration // how long to wait for other processes
}

// checkPath returns the absolute form of a path, so that a later change of the working folder does not matter. It
// refuses a path that cannot be a database. It does not open the file: see the package documentation on locks.
func checkPath(path string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("sqlite: the path of the database file is empty")
	case strings.HasPrefix(path, ":memory:"), strings.HasPrefix(path, "file:"):
		return "", fmt.Errorf("sqlite: %q is not the path of a file: give a plain path, or use session.NewMemory for a store without a file", path)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("sqlite: the path %q contains a zero byte: give a path without it", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlite: %w", err)
	}
	info, err := os.Stat(abs)
	switch {
	case err == nil && info.IsDir():
		return "", fmt.Errorf("sqlite: %s is a folder: give the path of a file in it", abs)
	case err == nil && !info.Mode().IsRegular():
		return "", fmt.Errorf("sqlite: %s is not a regular file: give the path of a database file, or of a new one", abs)
	case err == nil && info.Size() > 0 && info.Size() < smallest:
		return "", fmt.Errorf("sqlite: %s is not an SQLite database: give the path of another file", abs) // SQLite would overwrite it
	case err == nil:
		return abs, nil
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("sqlite: no permission to look at %s: check the permissions of the folders that lead to it: %w", abs, err)
	}
	dir := filepath.Dir(abs)
	info, err = os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("sqlite: the folder %s does not exist: create it, or choose another place for %s: %w", dir, filepath.Base(abs), err)
	case err != nil:
		return "", fmt.Errorf("sqlite: the folder of %s: %w", abs, err)
	case !info.IsDir():
		return "", fmt.Errorf("sqlite: %s is not a folder: give the path of a database file in a folder", dir)
	}
	return abs, nil
}

// firstDSN returns the name of the file for the first connection, which creates the file if it is missing. SQLite
// gives a new file the permissions of the file that the parameter modeof names, so firstDSN creates an empty file
// that only its owner may read. The database never has wider permissions, and only SQLite opens and closes it.
func (f *file) firstDSN() (dsn string, cleanUp func(), err error) {
	if _, err := os.Stat(f.path); err == nil {
		return f.dsn("FULL"), func() {}, nil
	}
	pattern, err := os.CreateTemp(filepath.Dir(f.path), ".arbor-*") // 0600
	if err != nil {
		return "", nil, fmt.Errorf("no file can be created in its folder: check the folder's permissions and the space on its disk: %w", err)
	}
	cleanUp = func() { _ = os.Remove(pattern.Name()) }
	if err := pattern.Close(); err != nil {
		cleanUp()
		return "", nil, err
	}
	return f.dsn("FULL", "mode", "rwc", "modeof", pattern.Name()), cleanUp, nil
}

// dsn returns the name of the file for a connection that writes. The connection does not wait for other processes,
// because whileBusy does.
func (f *file) dsn(synchronous string, more ...string) string {
	return f.uri(append([]string{"_synchronous", synchronous, "_foreign_keys", "on", "_busy_timeout", "0", "_pragma", writeCache}, more...))
}

// writeCache is the page cache of a connection that writes, in KiB. It has room for the pages that a thousand
// sessions change together. A page that does not fit is written to the write-ahead log early, and its checksum is
// computed twice.
const writeCache = "cache_size(-8192)"

func (f *file) readDSN(more ...string) string {
	return f.uri(append([]string{"_query_only", "on", "_busy_timeout", fmt.Sprint(max(f.wait, time.Millisecond).Milliseconds())}, more...))
}

func (f *file) uri(params []string) string {
	q := url.Values{"mode": {"rw"}, "_dqs": {"0"}, "_defensive": {"1"}, "_error_rc": {"1"}}
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	path := filepath.ToSlash(f.path)
	if !strings.HasPrefix(path, "/") { // C:/…
		path = "/" + path
	}
	// SQLite reads %20 as a space, but not +.
	query := strings.ReplaceAll(q.Encode(), "+", "%20")
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}

func readers() int { return max(4, runtime.GOMAXPROCS(0)) }

// prepareFile makes sure that the file belongs to this program, is in WAL mode and has the newest schema. Each step
// can fail while other processes open a new file too, and can be repeated.
func prepareFile(ctx context.Context, db *sql.DB) error {
	if err := checkFile(ctx, db); err != nil {
		return err
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("its file system does not allow a write-ahead log (the journal mode stays %q): use a local disk", mode)
	}
	// Events survive a loss of power only with this setting, and a driver that does
	// not know the parameter would ignore it.
	var synchronous int
	if err := db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	if synchronous < 2 { // FULL
		return fmt.Errorf("the driver does not wait for the disk (synchronous is %d)", synchronous)
	}
	return createSchema(ctx, db)
}

// whileBusy repeats fn while it fails because another process is writing. The pauses are short, because that process
// may leave the file free only for moments.
func (f *file) whileBusy(ctx context.Context, fn func() error) error {
	err := fn()
	if !isBusy(err) {
		return err
	}
	deadline := time.Now().Add(f.wait)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := 100 * time.Microsecond; isBusy(err) && time.Now().Before(deadline); pause = min(2*pause, 2*time.Millisecond) {
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		err = fn()
	}
	return err
}
