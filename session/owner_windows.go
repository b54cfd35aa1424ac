package session

import "syscall"

// processStart returns when a process was started, in nanoseconds since 1970, or 0 if the system does not tell:
// processes of other users may not be asked. running is false for a process that does not exist or has ended.
func processStart(pid int) (started int64, running bool) {
	const (
		queryLimitedInformation               = 0x1000
		invalidParameter        syscall.Errno = 87  // no process has this PID
		stillActive                           = 259 // the exit code of a process that runs
	)
	h, err := syscall.OpenProcess(queryLimitedInformation, false, uint32(pid))
	if err != nil {
		return 0, err != invalidParameter
	}
	defer func() { _ = syscall.CloseHandle(h) }()
	var code uint32
	if err := syscall.GetExitCodeProcess(h, &code); err == nil && code != stillActive {
		return 0, false
	}
	var created, ended, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(h, &created, &ended, &kernel, &user); err != nil {
		return 0, true
	}
	return created.Nanoseconds(), true
}
