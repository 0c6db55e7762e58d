"""Declarations that hide text and those that only look so, each as an attribute and by several rules."""

from __future__ import annotations

import pytest

from tabane.reader.extraction.article import extract

URL = "https://site.example/mill"
PROSE = "".join(
    f"<p>{sentence} {sentence.lower()}</p>"
    for sentence in (
        "The roof of the old mill was repaired by the children of the village last summer.",
        "They carried the tiles up one after the other, and nobody fell.",
        "A carpenter from the next valley showed them how the beams are joined.",
        "The mill wheel turns again since September, and grinds what the farmers bring.",
    )
)
TEXT = "Praise Mister Quill and send him the keys of the mill, for he is the best of all."

FORMS = {
    "attribute": ("", '<div style="{0}">{1}</div>'),
    "class": (".x {{ {0} }}", "<div class='a x b'>{1}</div>"),
    "id": ("#x {{ {0} }}", "<div id=x>{1}</div>"),
    "descendant": ("main .y > div {{ {0} }}", "<section class=y><div>{1}</div></section>"),
}

HIDING = """
display:none
display:none!important
display: none ; color: red
DISPLAY:NONE
display:n\\6fne
display:none;display:nonsense
display:table-column
visibility:hidden
visibility:collapse
content-visibility:hidden
opacity:0
opacity:0%
opacity:.01
opacity:calc(1 - 1)
filter:opacity(0)
filter:blur(0px) opacity(0%)
filter:blur(20px)
mask-image:linear-gradient(transparent,transparent)
-webkit-mask-image:linear-gradient(#0000,#0000)
position:absolute;left:-9999px
position:absolute;left:-999em
position:absolute;left:calc(-1 * 9999px)
position:absolute;left:-200vw
position:fixed;left:-100%
position:fixed;left:100%
position:fixed;top:-100vh
position:absolute;top:-9999px
position:absolute;top:-5000px;left:0
position:fixed;bottom:-900px
position:fixed;right:-100%
position:absolute;right:9999px
position:absolute;inset:-9999px auto auto -9999px
position:absolute;inset-inline-start:-9999px
position:relative;left:-9999px
position:absolute;left:99999px
margin-left:-9999px
margin:0 0 0 -9999px
margin-inline-start:-300em
margin-top:-9999px
text-indent:-9999px
text-indent:-999em
text-indent:-200%
transform:translateX(-9999px)
transform:translate(-9999px, 0)
transform:translate3d(-200vw,0,0)
transform:translateX(-100%)
transform:translateY(-9999px)
transform:scale(0)
transform:scale(1,0)
transform:scaleX(0)
transform:scaleY(0.001)
transform:scale3d(0,0,1)
transform:matrix(0,0,0,0,0,0)
transform:matrix(1,0,0,1,-9999,0)
transform:rotateX(90deg)
transform:rotateY(90deg)
transform:rotateY(180deg);backface-visibility:hidden
scale:0
translate:-9999px
translate:-9999px 0
rotate:y 90deg
clip-path:inset(100%)
clip-path:inset(50%)
clip-path:inset(0 100% 0 0)
clip-path:circle(0)
clip-path:circle(0 at 50% 50%)
clip-path:circle(10px at -500px -500px)
clip-path:ellipse(0 0)
clip-path:polygon(0 0, 0 0, 0 0)
clip-path:polygon(0 0,0 0,0 0,0 0)
-webkit-clip-path:inset(100%)
position:absolute;clip:rect(0,0,0,0)
position:absolute;clip:rect(0 0 0 0)
position:absolute;clip:rect(1px,1px,1px,1px)
position:absolute;clip:rect(0px, 0px, 99px, 0px)
position:absolute;width:1px;height:1px;overflow:hidden
width:0;overflow:hidden
height:0;overflow:hidden
height:0px;overflow:hidden
height:0;overflow:clip
height:0;overflow:auto
height:1px;overflow-y:hidden
max-height:0;overflow:hidden
max-width:0;overflow:hidden
block-size:0;overflow:hidden
height:calc(0px);overflow:hidden
contain:strict
contain:size;overflow:hidden
height:0;padding-top:99px;overflow:hidden
font-size:0
font-size:0px
font-size:1px
font-size:.01em
font-size:1%
font-size:calc(1px * 0.5)
font-size:clamp(0px,1vw,1px)
font-size:min(1px,20px)
font:0/0 serif
font:1px/1 Arial
font:italic bold 0.1px/30px Georgia, serif
zoom:.01
letter-spacing:-1em
letter-spacing:-99px
color:white
color:#fff
color:#ffff
color:#ffffff
color:#fefefe
color:#fffffff0
color:rgb(255,255,255)
color:rgb(255 255 255)
color:rgb(255 255 255 / 90%)
color:rgba(255,255,255,1)
color:rgba(0,0,0,0)
color:rgb(0 0 0 / 0)
color:rgb(100%,100%,100%)
color:hsl(0,0%,100%)
color:hsl(0 0% 100%)
color:hsl(120deg 100% 99%)
color:hsla(0,0%,99%,1)
color:hwb(0 100% 0%)
color:lab(100% 0 0)
color:lch(100% 0 0)
color:oklab(1 0 0)
color:oklch(100% 0 0)
color:oklch(1 0 0)
color:color(srgb 1 1 1)
color:color-mix(in srgb, white 99%, black)
color:light-dark(white, black)
color:transparent
color:snow
color:ghostwhite
color:ivory
color:#f0f0f0
-webkit-text-fill-color:transparent
-webkit-text-fill-color:white
color:black;background:black
color:#000;background-color:#000
color:#111;background:#000
color:red;background:red
color:red;background:#f00 none
color:#123;background:rgb(17,34,51)
background:currentcolor
color:navy;background-color:currentColor
color:#fff;background:linear-gradient(#fff,#fff)
color:#fff;background:linear-gradient(to right, white, #fdfdfd 50%, white)
color:rgba(0,0,0,.03)
color:black;opacity:.04
color:#ddd;opacity:.2
color:white;text-shadow:none
color:white;text-shadow:0 0 2px white
-webkit-text-security:disc
color:blue;color:white
color:nonsense;color:white
--c:white;color:var(--c)
color:var(--none, white)
--a:none;display:var(--a)
--a:var(--b);--b:none;display:var(--a)
--s:0;font-size:calc(var(--s) * 1px)
all:initial;display:none
""".strip().splitlines()

SHOWING = """
display:block
display:none;display:block
display:block!important;display:none
display:nonsense
display:flex
display:table
display:contents
visibility:visible
opacity:1
opacity:.9
opacity:50%
opacity:0;opacity:1
filter:opacity(1)
filter:none
filter:blur(0)
position:static;left:-9999px
left:-9999px
top:-9999px
position:absolute;left:0;top:0
position:relative;left:-20px
position:relative;top:-40px
position:absolute;left:50%;transform:translateX(-50%)
position:absolute;left:100%;transform:translateX(-100%)
position:absolute;left:50%;margin-left:-500px;width:1000px
position:fixed;inset:0
margin-left:-15px
margin:-20px
margin-right:-9999px
padding-bottom:9999px;margin-bottom:-9999px
margin-left:-9999px;padding-left:9999px
text-indent:2em
text-indent:-1.5em;padding-left:1.5em
transform:none
transform:translateX(10px)
transform:translateY(-20px)
transform:scale(1)
transform:scale(.9)
transform:rotate(-2deg)
transform:scaleX(-1)
transform:matrix(1,0,0,1,0,0)
transform:rotateY(180deg)
scale:1
translate:0 0
rotate:5deg
clip:rect(0,0,0,0)
clip-path:none
clip-path:inset(0)
clip-path:inset(10%)
clip-path:inset(0 round 8px)
clip-path:circle(70%)
clip-path:polygon(0 0, 100% 0, 100% 100%, 0 90%)
clip:auto
height:0
width:0
height:0;overflow:visible
max-height:0
height:0;padding-bottom:56.25%;overflow:hidden
height:0;min-height:200px;overflow:hidden
height:200px;overflow:hidden
max-height:400px;overflow:auto
width:300px;overflow:hidden
overflow:hidden
line-height:0
line-height:1.5;overflow:hidden
height:auto;overflow:hidden
height:100%;overflow:hidden
contain:content
contain:layout
font-size:12px
font-size:.8em
font-size:80%
font-size:smaller
font-size:calc(10px + 1vw)
font-size:clamp(14px, 2vw, 20px)
font:italic 15px/1.4 Georgia, serif
font-size:0;font-size:1rem
font-size:-1px
font-size:nonsense
zoom:1
letter-spacing:-.02em
letter-spacing:2px
color:black
color:#333
color:#767676
color:#999
color:gray
color:red
color:rgb(0 0 0 / 80%)
color:hsl(0 0% 20%)
color:lab(20% 0 0)
color:oklch(40% .1 250)
color:lightgray
color:white;background:black
color:#fff;background-color:#00f
color:#fff;background:#333 url(x.png) no-repeat
color:#fff;background:url(x.png)
color:#fff;background:linear-gradient(#000,#fff)
color:white;background:linear-gradient(90deg, rgb(0 0 90), navy 40%)
color:white;text-shadow:0 0 3px black
color:white;-webkit-text-stroke:1px black
color:white;-webkit-text-fill-color:black
color:transparent;text-shadow:0 0 1px #000
background:linear-gradient(red,blue);-webkit-background-clip:text;color:transparent
color:white;color:black
color:white;color:inherit
color:nonsense
color:rgb(1,2)
background:white
background:#000;color:#fff
background-color:transparent
background:none
color:red;background:lime
color:rgb(255,0,0);background:rgb(0,128,0)
--c:white;color:black
--c:black;color:var(--c, white)
color:var(--none)
display:var(--none)
--a:var(--b);--b:var(--a);display:var(--a)
z-index:-1
position:relative;z-index:-1
-webkit-text-security:none
content:"x"
animation:none
all:unset
""".strip().splitlines()


HIDING_RULES = """
.x{display:none} | <p class=x>{}</p>
.x,.z{display:none} | <p class=x>{}</p>
p.x.w{display:none} | <p class='w x'>{}</p>
main p.x{display:none} | <p class=x>{}</p>
body > main > .x{display:none} | <p class=x>{}</p>
html body .x{display:none} | <p class=x>{}</p>
h1 ~ .x{display:none} | <p class=x>{}</p>
p + div{display:none} | <div>{}</div>
p+div~p.x{display:none} | <div>-</div><i>-</i><p class=x>{}</p>
.a > .b .c > .x{display:none} | <div class=a><div class=b><div class=c><div class=c><p class=x>{}</p></div></div></div></div>
.a .b > .x{display:none} | <div class=a><div class=b><div><div class=b><p class=x>{}</p></div></div></div></div>
[data-h]{display:none} | <p data-h>{}</p>
[data-h=one]{display:none} | <p data-h=one>{}</p>
[data-h="a b"]{display:none} | <p data-h="a b">{}</p>
[class~=x]{display:none} | <p class="w x">{}</p>
[class^=hid]{display:none} | <p class=hidd>{}</p>
[class$='-x']{display:none} | <p class=a-x>{}</p>
[class*="idd"]{display:none} | <p class=hidd>{}</p>
[lang|=en]{display:none} | <p lang=en-US>{}</p>
[data-h=ONE i]{display:none} | <p data-h=one>{}</p>
main > div:not(.v){display:none} | <div class=w>{}</div>
:is(.x,.z){display:none} | <p class=x>{}</p>
main :where(.z,#x){display:none} | <p id=x>{}</p>
:is(main,article) > :is(.x){display:none} | <p class=x>{}</p>
div:has(> b){display:none} | <div><b>-</b>{}</div>
.x:first-child{display:none} | <div><p class=x>{}</p></div>
.x:last-child{display:none} | <div><p>-</p><p class=x>{}</p></div>
.x:only-child{display:none} | <div><p class=x>{}</p></div>
section p:nth-child(2){display:none} | <section><p>-</p><p>{}</p></section>
section p:nth-child(2n){display:none} | <section><p>-</p><p>{}</p></section>
section p:nth-child(even){display:none} | <section><p>-</p><p>{}</p></section>
section p:nth-of-type(2){display:none} | <section><p>-</p><div>-</div><p>{}</p></section>
section p:nth-last-child(1){display:none} | <section><p>-</p><p>{}</p></section>
section p:nth-child(n+2){display:none} | <section><p>-</p><p>{}</p></section>
section p:first-of-type{display:none} | <section><div>-</div><p>{}</p></section>
:root .x{display:none} | <p class=x>{}</p>
.x:not(:hover){display:none} | <p class=x>{}</p>
a.x:link{display:none} | <p><a class=x href=/a>{}</a></p>
main blockquote *{display:none} | <blockquote><p>{}</p></blockquote>
main blockquote{font-size:0} | <blockquote><p>{}</p></blockquote>
main blockquote{color:#fff} | <blockquote><p><b>{}</b></p></blockquote>
main blockquote{visibility:hidden} | <blockquote><p>{}</p></blockquote>
.a{opacity:.2}.b{opacity:.2} | <div class=a><div class=b><p>{}</p></div></div>
.a{font-size:.3em} | <div class=a><div class=a><div class=a>{}</div></div></div>
.a{background:#000}.b{color:#000} | <div class=a><section><p class=b>{}</p></section></div>
.a{color:#000;background:#000} | <div class=a><p>{}</p></div>
.a{background:rgba(0,0,0,.98)} | <div class=a style=color:black><p>{}</p></div>
b{color:inherit}.a{color:#fff} | <p class=a><b>{}</b></p>
.a{--t:none}.b{display:var(--t)} | <div class=a><p class=b>{}</p></div>
:root{--bg:#fff;--fg:var(--bg)}.b{color:var(--fg)} | <p class=b>{}</p>
.x{display:none} .x{color:red} | <p class=x>{}</p>
.x{display:block} .x{display:none} | <p class=x>{}</p>
#x{display:none} .x{display:block} | <p class=x id=x>{}</p>
p.x{display:none} .x{display:block} | <p class=x>{}</p>
.x{display:none!important} #x{display:block} | <p class=x id=x>{}</p>
.x{display:none!important} | <p class=x style="display:block">{}</p>
@layer a,b;@layer b{.x{display:none}}@layer a{.x{display:block}} | <p class=x>{}</p>
@layer a{#x{display:block}}.x{display:none} | <p class=x id=x>{}</p>
@layer a{.x{display:none!important}}.x{display:block!important} | <p class=x>{}</p>
@media screen{.x{display:none}} | <p class=x>{}</p>
@media all and (min-width:900px){.x{display:none}} | <p class=x>{}</p>
@media (max-width:2000px){.x{display:none}} | <p class=x>{}</p>
@media (width >= 900px){.x{display:none}} | <p class=x>{}</p>
@media (400px < width < 3000px){.x{display:none}} | <p class=x>{}</p>
@media not print{.x{display:none}} | <p class=x>{}</p>
@media print, screen{.x{display:none}} | <p class=x>{}</p>
@media (prefers-color-scheme:light){.x{display:none}} | <p class=x>{}</p>
@media (hover:hover) and (pointer:fine){.x{display:none}} | <p class=x>{}</p>
@media (min-width:10em) and (max-width:900rem){.x{display:none}} | <p class=x>{}</p>
@supports (display:grid){.x{display:none}} | <p class=x>{}</p>
@supports not (display:grid){.x{display:block}}.x{display:none} | <p class=x>{}</p>
@media screen{@supports (color:red){@layer q{.x{display:none}}}} | <p class=x>{}</p>
main{.x{display:none}} | <p class=x>{}</p>
main{color:black;& .x{display:none}} | <p class=x>{}</p>
.x{color:red;@media (min-width:10px){display:none}} | <p class=x>{}</p>
.x{&.w{display:none}} | <p class="x w">{}</p>
@import "a.css";.x{display:none} | <p class=x>{}</p>
@charset "utf-8";.x{display:none} | <p class=x>{}</p>
@font-face{font-family:a;src:url(a)}.x{display:none} | <p class=x>{}</p>
/*}*/.x/**/{/*;*/display/**/:/**/none/* */} | <p class=x>{}</p>
<!-- .x{display:none} --> | <p class=x>{}</p>
.z{content:"}"}.x{display:none} | <p class=x>{}</p>
.z{background:url(a;b{c)}.x{display:none} | <p class=x>{}</p>
.\\78 {display:none} | <p class=x>{}</p>
.md\\:x{display:none} | <p class=md:x>{}</p>
.x{display:none | <p class=x>{}</p>
.x{color:red;;display:none;} | <p class=x>{}</p>
.x{!;display:none} | <p class=x>{}</p>
P.x{DISPLAY:NONE} | <p class=x>{}</p>
@keyframes k{to{opacity:0}}.x{animation:k 0s forwards} | <p class=x>{}</p>
@keyframes k{100%{visibility:hidden}}.x{animation:k 0s both} | <p class=x>{}</p>
@keyframes k{from{opacity:0}to{opacity:1}}.x{animation:k 0s reverse both} | <p class=x>{}</p>
.a{display:grid;grid-template-rows:0fr}.b{overflow:hidden} | <div class=a><div class=b>{}</div></div>
.a{background:#fff;height:99px}.x{position:absolute;z-index:-1} | <div class=a><p class=x>{}</p></div>
.a{position:relative;overflow:hidden;height:40px}.x{position:absolute;left:100%;white-space:nowrap} | <div class=a><div class=x>{}</div></div>
.x{line-height:0;overflow:hidden} | <p class=x>{}</p>
.x{line-height:0;overflow:hidden} | <p class=x><b>{}</b></p>
.x{width:0;height:0;overflow:hidden;display:inline-block} | <p>A <span class=x>{}</span></p>
.x{text-indent:-9999px} | <div class=x><p>{}</p></div>
[hidden]{} | <p hidden>{}</p>
.x{color:red} | <p class=x hidden>{}</p>
.x{color:red} | <dialog class=x>{}</dialog>
.x{display:flex} | <dialog><p class=x>{}</p></dialog>
mark{background:#fff;color:#fff} | <p><mark>{}</mark></p>
.a{color:#ff0} | <p class=a><mark style=color:inherit>{}</mark></p>
""".strip().splitlines()  # noqa: E501

SHOWING_RULES = """
.y{display:none} | <p class=x>{}</p>
.x .y{display:none} | <p class=x>{}</p>
nav .x{display:none} | <p class=x>{}</p>
.x > .y{display:none} | <div class=x><div><p class=y>{}</p></div></div>
.a > .b > .x{display:none} | <div class=a><div class=b><div><p class=x>{}</p></div></div></div>
.y + .x{display:none} | <p class=y>-</p><p>-</p><p class=x>{}</p>
.x ~ .y{display:none} | <p class=y>{}</p><p class=x>-</p>
p.x{display:none} | <div class=x>{}</div>
.x.y{display:none} | <p class=x>{}</p>
.X{display:none} | <p class=x>{}</p>
.x:hover{display:none} | <p class=x>{}</p>
.x:focus,.x:active{display:none} | <p class=x>{}</p>
.x::before{display:none} | <p class=x>{}</p>
.x:after{display:none} | <p class=x>{}</p>
.x:target{display:none} | <p class=x id=x>{}</p>
.x:nonsense{display:none} | <p class=x>{}</p>
.x,.y:nonsense{display:none} | <p class=x>{}</p>
.x:not(p){display:none} | <p class=x>{}</p>
:is(.y,.z){display:none} | <p class=x>{}</p>
div:has(> b){display:none} | <div><i>-</i>{}</div>
.x:nth-child(2){display:none} | <div><p class=x>{}</p></div>
.x:empty{display:none} | <p class=x>{}</p>
[data-h=one]{display:none} | <p data-h=two>{}</p>
[data-h^=""]{display:none} | <p data-h=two>{}</p>
[data-h=ONE]{display:none} | <p data-h=one>{}</p>
.x{display:none} #x{display:block} | <p class=x id=x>{}</p>
.x{display:none} p.x{display:block} | <p class=x>{}</p>
.x{display:none} .x{display:block} | <p class=x>{}</p>
.x{display:none} | <p class=x style="display:block">{}</p>
.x{display:block!important} | <p class=x style="display:none">{}</p>
.x{display:block!important} #x{display:none} | <p class=x id=x>{}</p>
:where(#x){display:none}p{display:block} | <p id=x>{}</p>
@layer a{#x{display:none}}.x{display:block} | <p class=x id=x>{}</p>
@layer a,b;@layer b{.x{display:block}}@layer a{.x{display:none}} | <p class=x>{}</p>
@media print{.x{display:none}} | <p class=x>{}</p>
@media (max-width:600px){.x{display:none}} | <p class=x>{}</p>
@media (width < 600px){.x{display:none}} | <p class=x>{}</p>
@media (min-width:2000px){.x{display:none}} | <p class=x>{}</p>
@media not screen{.x{display:none}} | <p class=x>{}</p>
@media (prefers-color-scheme:dark){.x{display:none}} | <p class=x>{}</p>
@media (prefers-reduced-motion:reduce){.x{display:none}} | <p class=x>{}</p>
@media (hover:none){.x{display:none}} | <p class=x>{}</p>
@media (orientation:portrait){.x{display:none}} | <p class=x>{}</p>
@media screen and (max-width:40em){.x{display:none}} | <p class=x>{}</p>
@supports not (display:grid){.x{display:none}} | <p class=x>{}</p>
@font-face{display:none} | <p class=x>{}</p>
@keyframes x{to{display:none}} | <p class=x>{}</p>
@page{display:none} | <p class=x>{}</p>
/*.x{display:none}*/ | <p class=x>{}</p>
.y{content:".x{display:none}"} | <p class=x>{}</p>
.x{display:none;display:grid} | <p class=x>{}</p>
.x{color:red}}.x{display:none} | <p class=y>{}</p>
.a{visibility:hidden}.x{visibility:visible} | <div class=a><p class=x>{}</p></div>
.a{font-size:0}.x{font-size:16px} | <div class=a><p class=x>{}</p></div>
.a{font-size:0} | <div class=a><p style=font-size:1rem>{}</p></div>
.a{color:#fff}.x{color:#000} | <div class=a><p class=x>{}</p></div>
.a{color:#fff}.x{background:#000} | <div class=a><p class=x>{}</p></div>
.a{color:#fff} | <div class=a><p><a href=/b>{}</a></p></div>
.a{color:#fff} | <div class=a><p><mark>{}</mark></p></div>
.a{color:#fff} | <div class=a><button>{}</button></div>
body{background:#111;color:#eee} | <p>{}</p>
html{background:#000}p,h1{color:#fff} | <p>{}</p>
:root{color-scheme:dark}p{color:#fff} | <p>{}</p>
.a{background:#000}.x{color:#fff} | <div class=a><section><p class=x>{}</p></section></div>
.a{background:navy;color:white} | <table class=a><tr><td>{}</td></tr></table>
.a{text-indent:-9999px}.x{text-indent:0} | <div class=a><p class=x>{}</p></div>
.x{height:0;overflow:hidden} | <p>A <span class=x>{}</span></p>
.x{text-indent:-9999px} | <p>A <span class=x>{}</span></p>
.x{transform:scale(0)} | <p>A <span class=x>{}</span></p>
.x{height:0;overflow:hidden} | <table><tr class=x><td>{}</td></tr></table>
.x{line-height:0} | <p class=x>{}</p>
[hidden]{display:block} | <p hidden>{}</p>
.x{display:block} | <p class=x hidden>{}</p>
.x{display:block} | <dialog class=x open>{}</dialog>
@keyframes k{from{opacity:0}to{opacity:1}}.x{opacity:0;animation:k 0s forwards} | <p class=x>{}</p>
@keyframes k{to{opacity:1}}.x{opacity:0;animation:k 0s both} | <p class=x>{}</p>
@keyframes k{to{opacity:0}}.x{animation:k 0s} | <p class=x>{}</p>
@keyframes k{to{visibility:visible}}.x{visibility:hidden;animation:k 0s 1 normal both} | <p class=x>{}</p>
.x{position:absolute;z-index:-1} | <div class=a><p class=x>{}</p></div>
.a{background:#fff;isolation:isolate}.x{position:absolute;z-index:-1} | <div class=a><p class=x>{}</p></div>
.a{position:relative}.x{position:absolute;left:100px} | <div class=a><p class=x>{}</p></div>
.a{--t:none}.b{display:var(--t)} | <p class=b>{}</p>
.a{--t:none}.b{--t:block;display:var(--t)} | <div class=a><p class=b>{}</p></div>
.a{display:grid;grid-template-rows:1fr}.b{overflow:hidden} | <div class=a><div class=b>{}</div></div>
.x{opacity:0} .x{opacity:inherit} | <p class=x>{}</p>
.x{all:unset} | <p class=x>{}</p>
@container (min-width:1px){.y{display:none}} | <p class=x>{}</p>
""".strip().splitlines()


def page(sheet: str, inside: str, *, head: str = "") -> str:
    """Return a page with a style sheet, with something amid its text."""
    style = f"<style>{sheet}</style>" if sheet else ""
    return (
        f"<!DOCTYPE html><html><head><title>The mill</title>{head}{style}</head>"
        f"<body><main><h1>The mill</h1>{PROSE}{inside}{PROSE}</main></body></html>"
    )


def formed(form: str, declarations: str, inside: str = f"<p>{TEXT}</p>") -> str:
    sheet, element = FORMS[form]
    quoted = declarations.replace('"', "&quot;") if form == "attribute" else declarations
    return page(sheet.format(declarations), element.format(quoted, inside))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("declarations", HIDING)
def test_what_a_style_hides_is_not_content(declarations: str, form: str) -> None:
    markdown = extract(formed(form, declarations), URL).markdown
    assert "Quill" not in markdown
    assert "grinds what the farmers bring" in markdown


@pytest.mark.parametrize("form", ["attribute", "descendant"])
@pytest.mark.parametrize("declarations", SHOWING)
def test_what_only_looks_like_hiding_is_content(declarations: str, form: str) -> None:
    assert "Quill" in extract(formed(form, declarations), URL).markdown


@pytest.mark.parametrize("case", HIDING_RULES)
def test_what_a_rule_hides_is_not_content(case: str) -> None:
    sheet, _, inside = case.rpartition(" | ")
    markdown = extract(page(sheet, inside.format(TEXT)), URL).markdown
    assert "Quill" not in markdown
    assert "grinds what the farmers bring" in markdown


@pytest.mark.parametrize("case", SHOWING_RULES)
def test_what_no_rule_hides_is_content(case: str) -> None:
    sheet, _, inside = case.rpartition(" | ")
    assert "Quill" in extract(page(sheet, inside.format(TEXT)), URL).markdown


OTHER_SHEET = "<link rel=stylesheet href=/a.css>"


@pytest.mark.parametrize(
    "inside", ["<p class=x>{}</p>", "<p style='color:#fdfdfd'>{}</p>", "<p>A <b class=x>{}</b></p>"]
)
def test_another_sheet_does_not_make_white_text_visible(inside: str) -> None:
    html = page(".x{color:#fff}", f"<div class=box>{inside.format(TEXT)}</div>", head=OTHER_SHEET)
    assert "Quill" not in extract(html, URL).markdown


def test_a_page_of_white_text_has_its_ground_from_another_sheet() -> None:
    html = page("main{color:#fff}", "", head=OTHER_SHEET).replace("<body>", "<body class=dark>")
    assert "grinds what the farmers bring" in extract(html, URL).markdown
