package session

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
)

func hostName() string {
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	h := fnv.New32a()
	h.Write(bytes.TrimSpace(boot))
	h.Write([]byte(namespace))
	return fmt.Sprintf("%s#%08x", name, h.Sum32())
}

// processStart returns a process's start time in clock ticks since boot, field 22 of /proc/PID/stat (man 5 proc). It
// returns 0 if the field cannot be read: some systems hide other users' processes. running is false for a process
// that has exited and that its parent has not waited for.
func processStart(pid int) (started int64, running bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, true
	}
	return parseStat(stat)
}

func parseStat(stat []byte) (started int64, running bool) {
	// Field 2 is the program's name in parentheses. It may contain spaces and
	// parentheses, so the fields are counted from its end.
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := bytes.Fields(rest) // from field 3
	if !ok || len(fields) < 20 {
		return 0, true
	}
	switch fields[0][0] {
	case 'Z', 'X', 'x':
		return 0, false
	}
	started, err := strconv.ParseInt(string(fields[19]), 10, 64)
	if err != nil {
		return 0, true
	}
	return started, true
}
