"""Cookies that a person imports for one host, so that the reader can read pages that need a login.

imported_cookies  cookies and the rules by which they are sent
cookie_formats    cookies.txt (Netscape) and the JSON of browser extensions
cookie_folder     the files in which they are kept, one for each host
"""
