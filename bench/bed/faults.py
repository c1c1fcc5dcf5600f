"""What can go wrong with a bed, in words for the person who asked for it."""


class BedFault(Exception):
    """A fault with a name, and what mends it. `code` is the exit code of the command."""

    def __init__(self, what, mend="", code=1):
        super().__init__(what)
        self.what, self.mend, self.code = what, mend, code

    def __str__(self):
        return f"error: [bed] {self.what}" + (f"\n  to mend:  {self.mend}" if self.mend else "")


class Usage(BedFault):
    """The command line asks for something that does not exist."""

    def __init__(self, what, mend=""):
        super().__init__(what, mend, code=2)


class CannotMakeBeds(BedFault):
    """This machine, or this user, cannot make a bed at all: no root, no control groups, no `ip` or `tc`."""

    def __init__(self, what, mend=""):
        super().__init__(what, mend, code=CANNOT)


class Stopped(BaseException):
    """A signal asked for the end. No fault, and not to be caught on the way out."""

    def __init__(self, signal_number):
        super().__init__(signal_number)
        self.code = 128 + signal_number


CANNOT = 77  # ctest's code for a test that was skipped
