"""What `tabane doctor` looks at: checks that take facts and give findings, each with its mend."""
