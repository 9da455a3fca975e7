package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// busyFor is how long a start is tried again while the program file is open for writing in a process that is just
// being forked: such a descriptor is gone as soon as that process has executed its program.
const busyFor = time.Second

// startLeader starts the command in a process group of its own, with files as 0, 1 and 2. Its error is a sentence for
// a person. spent is CPU time that the kernel counts as the command's and that is not.
func startLeader(o order, files []uintptr) (pid int, spent time.Duration, err error) {
	dir, argv, env := string(o.Dir), toStrings(o.Argv), toStrings(o.Env)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return 0, 0, fmt.Errorf("its directory %q does not exist or is not a directory", dir)
	}
	path, err := lookUp(argv[0], dir, env)
	if err != nil {
		return 0, 0, err
	}
	if o.staged() {
		return startStage(o.stage(path), files, o.joinFDs())
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}}
	err = whileBusy(func() error {
		pid, err = syscall.ForkExec(path, argv, attr)
		return err
	})
	if err != nil {
		return 0, 0, explain(argv[0], absolute(dir, path), err)
	}
	return pid, 0, nil
}

// whileBusy tries to execute a program for as long as its file may be about to be closed.
func whileBusy(start func() error) error {
	deadline := time.Now().Add(busyFor)
	for {
		err := start()
		if !errors.Is(err, syscall.ETXTBSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// lookUp finds the program as the command itself would: in the PATH of env, relative parts of it from dir.
func lookUp(program, dir string, env []string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	list, set := "", false
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			list, set = value, true
		}
	}
	if !set {
		return "", fmt.Errorf("program %q was not found: its environment has no PATH; pass PATH through, or give the program's path", program)
	}
	unusable := ""
	for _, part := range strings.Split(list, ":") {
		path := absolute(dir, filepath.Join(part, program))
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
		if unusable == "" {
			unusable = path
		}
	}
	if unusable != "" {
		return "", notExecutable(program, unusable)
	}
	return "", fmt.Errorf("program %q was not found in its PATH %q; install it, add its directory to PATH, or give its path", program, list)
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

func notExecutable(program, path string) error {
	return fmt.Errorf("program %q is not executable (%s); make it so with chmod +x, or put its interpreter first", program, path)
}

// explain says what an errno of exec means for the program at path. ENOENT alone has three meanings.
func explain(program, path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return explainMissing(program, path)
	case errors.Is(err, syscall.EACCES):
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			return fmt.Errorf("program %q is a directory (%s)", program, path)
		}
		return notExecutable(program, path)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("program %q is not executable here (%s): it has no #! line, or was built for another machine", program, path)
	case errors.Is(err, syscall.E2BIG):
		return errors.New("its arguments and environment are too large together; hand large text over in stdin or seed_inputs")
	case errors.Is(err, syscall.ETXTBSY):
		return fmt.Errorf("program %q is still open for writing (%s); close the file before the command starts", program, path)
	}
	return fmt.Errorf("program %q (%s): %w", program, path, err)
}

func explainMissing(program, path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("program %q was not found (no file %s); a path with a slash is taken relative to the command's directory", program, path)
	}
	if err != nil {
		return fmt.Errorf("program %q (%s) or its interpreter was not found, and it cannot be read: %w", program, path, err)
	}
	defer file.Close()
	// BINPRM_BUF_SIZE: the kernel looks at the first 256 bytes only.
	line, err := bufio.NewReader(io.LimitReader(file, 256)).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("read the first line of program %q (%s): %w", program, path, err)
	}
	interpreter, isScript := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "#!")
	if !isScript {
		return fmt.Errorf("program %q is there (%s), but the loader that it was linked for was not found; it was built for another system", program, path)
	}
	interpreter = strings.TrimLeft(interpreter, " \t")
	if strings.HasSuffix(interpreter, "\r") {
		return fmt.Errorf("the interpreter of program %q was not found: the first line of %s ends in a carriage return; save the file with LF line ends", program, path)
	}
	return fmt.Errorf("the interpreter %q in the first line of program %q (%s) was not found", interpreter, program, path)
}

// raiseOOMScore makes the kernel prefer the command to us when memory runs out. It is a courtesy: a command may run
// as well where it is not possible.
func raiseOOMScore(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("500"), 0)
}
