"""Signals by language, and which of them to look for in a text: those of the languages that it may be in.

Texts are in small letters, each part on one line, without ``*`` and backticks. Gaps are counted in words or
characters, stay in one sentence and have a limit, so that each expression takes linear time. There are signals
in Japanese, the plainest forms of what attacks say in Chinese, Korean, Spanish, German, French and Russian,
and signals that are the same in every language. English is found by rules over words (``word_rules``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tabane.guard.scanner.evidence import MAIL, Sign, Signal, anchored, signal

_CHINESE_GAP = r"[^。!!??\n]"
_LINE = r"[^.!?\n]"
_FOREIGN_PATHS = r"\.ssh|id_rsa|id_ed25519|\.aws|\.env\b|\.netrc|\.npmrc|/etc/passwd|mcp\.json|credentials\b|\.kube|\.gnupg"

CHINESE: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"(?:不要|不得|切勿|请勿|勿|无需|不必|禁止|别|不能|不可|未经|不让|瞒着|避免){_CHINESE_GAP}{{0,10}}?(?:告诉|告知|通知|提及|透露|说明|显示|提醒|提示|向)?{_CHINESE_GAP}{{0,6}}?(?:用户|使用者|任何人|他人|客户|用戶)(?:{_CHINESE_GAP}{{0,6}}?(?:知道|察觉|发现|提及|透露|说明|同意|告知))?|(?:秘密|悄悄|偷偷|暗中|私下|静默)(?:地|将|把|发送|读取|上传|执行)?|(?:不要|不得|切勿|禁止){_CHINESE_GAP}{{0,8}}(?:提及|透露|提到)"),
    signal(Sign.OVERRIDE, 6, rf"(?:忽略|无视|忘记|忘掉|不要遵守|不再遵守|覆盖|抛弃|忽視|無視){_CHINESE_GAP}{{0,8}}?(?:之前|以前|先前|上述|以上|前面|所有|全部|任何|系统|原有|此前){_CHINESE_GAP}{{0,10}}?(?:指令|指示|提示|规则|命令|要求|限制|提示词|約束|约束)"),
    signal(Sign.OVERRIDE, 4, r"从现在(?:开始|起)|你现在是|新(?:的)?(?:系统)?指令[::]|优先于(?:所有|任何|系统|用户)|开发者模式|越狱模式|(?:致|给)(?:ai|助手|模型|大模型)[::]"),
    signal(Sign.ORDER, 2, rf"(?:使用|调用|执行|运行|回答|操作|回复){_CHINESE_GAP}{{0,12}}?(?:之前|前|以前|时|的时候|后|之后){_CHINESE_GAP}{{0,20}}?(?:读取|打开|获取|收集|发送|调用|执行|上传|包含|传入|先|必须|运行)"),
    signal(Sign.ORDER, 1, r"(?:必须|务必|一定要|首先|始终|总是|请先|每次)"),
    signal(Sign.PRESSURE, 1, r"否则|(?:安全|合规|审计|验证|认证)(?:检查|要求|目的|策略|规定|需要)|重要[::!!]|紧急|强制"),
    signal(Sign.SECRETS, 3, rf"(?:读取|打开|获取|收集|发送|上传|包含|传入|查找|复制|提供|粘贴|附上|读出|列出|查看|填入|导出){_CHINESE_GAP}{{0,20}}?(?:{_FOREIGN_PATHS}|密钥|私钥|密码|口令|凭证|凭据|环境变量|令牌|token|api ?key|cookie|机密|助记词|证书)"),
    signal(Sign.CONVERSATION, 3, rf"(?:完整|全部|所有|整个|之前|全文){_CHINESE_GAP}{{0,6}}?(?:对话|聊天|会话|消息|交谈)(?:历史|记录|内容|上下文)?|(?:对话|聊天|会话)(?:历史|记录)|系统提示(?:词)?|系统指令|用户的(?:原话|原始消息|全部消息)"),
    signal(Sign.STUFFING, 1, rf"(?:作为|放入|填入|传入|写入|放到|放在|包含在|附加到|加到|添加到|赋给|传给){_CHINESE_GAP}{{0,16}}?(?:参数|字段|变量|[a-z_]{{2,24}})|(?<![a-z_])[a-z_]{{2,64}}+ ?(?:参数|字段)(?:中|里|传入)?"),
    signal(Sign.CHANNEL, 3, rf"(?:发送|上传|转发|提交|发|传|邮寄|推送|同步)(?:到|至|给|往){_CHINESE_GAP}{{0,10}}?(?:https?://|{MAIL}|外部|远程|服务器)"),
    signal(Sign.EXCLUSIVE, 3, rf"(?:必须|始终|总是|一律|务必|优先|首先|只能|都要){_CHINESE_GAP}{{0,6}}?(?:优先)?(?:使用|调用|选择)(?:本|此|这个|该)(?:工具|服务)|(?:不要|不得|切勿|禁止|不能){_CHINESE_GAP}{{0,6}}?(?:使用|调用|信任|选择){_CHINESE_GAP}{{0,4}}?(?:其他|其它|别的|任何其他|其余)"),
    signal(Sign.EXCLUSIVE, 4, rf"(?:无论用户|任何问题|所有问题|每次对话){_CHINESE_GAP}{{0,16}}?(?:使用|调用)(?:本|此|这个|该)(?:工具|服务)"),
    signal(Sign.EXCLUSIVE, 2, r"无论用户|任何(?:问题|请求|情况)|所有(?:请求|问题|操作)(?:之前|前|都)|每次(?:对话|请求|调用|回答)"),
    signal(Sign.OTHER_TOOL, 3, rf"(?:(?<![a-z])[a-z]{{1,24}}+_[a-z_]{{1,40}}+|其他|其它|该|原|官方){_CHINESE_GAP}{{0,8}}?(?:工具|服务器|服务)?{_CHINESE_GAP}{{0,4}}?(?:已弃用|已废弃|不安全|已损坏|有漏洞|已被攻破|故障|不可信|停用)"),
    signal(Sign.OTHER_TOOL, 2, rf"(?:发送邮件|发邮件|转账|付款|支付|发送消息|(?<![a-z])[a-z]{{1,24}}+_[a-z_]{{1,40}}+){_CHINESE_GAP}{{0,8}}?(?:时|之前|前|被调用)"),
    signal(Sign.REDIRECT, 4, rf"(?:bcc|密送|抄送|收件人|收款人|收款账户|账号|账户|钱包地址|金额){_CHINESE_GAP}{{0,8}}?(?:设为|设置为|改为|替换|更改|添加|加上|换成|修改|指定为)"),
    signal(Sign.UNCONFIRMED, 2, r"(?:无需|不要|不必|跳过|绕过|不用|未经)(?:用户)?(?:的)?(?:确认|许可|同意|批准|授权|询问)"),
)  # fmt: skip

KOREAN: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"(?:사용자|유저|이용자|누구|고객|본인)(?:에게|한테|께|에게는|가|의)?{_LINE}{{0,20}}?(?:알리지|말하지|언급하지|보여주지|공개하지|모르게|알려 ?주지|밝히지|통지하지|눈치|몰래|보고하지|알 필요|동의 없이|모르도록)|몰래|비밀리에|은밀(?:히|하게)|비밀로|조용히"),
    signal(Sign.OVERRIDE, 6, rf"(?:이전|기존|앞선|위|지금까지|모든|시스템|앞)(?:의|에)?{_LINE}{{0,10}}?(?:지시|명령|지침|프롬프트|규칙|제한|안내)(?:사항)?(?:를|을|은|는|들을)?{_LINE}{{0,6}}?(?:무시|잊|따르지 ?마|폐기|덮어)"),
    signal(Sign.OVERRIDE, 4, r"지금부터|이제부터|새로운 (?:지시|명령|역할)|당신은 이제|개발자 모드|우선합니다|우선한다"),
    signal(Sign.ORDER, 2, rf"(?:사용|호출|실행|이용|답변|응답|작업)(?:하기|을|를)?{_LINE}{{0,6}}?(?:전에|전|때마다|할 때|후에|이전에){_LINE}{{0,30}}?(?:읽|열|가져|수집|전송|보내|포함|호출|실행|전달|업로드)"),
    signal(Sign.ORDER, 1, r"반드시|먼저|항상|꼭 |해야 합니다|필수"),
    signal(Sign.PRESSURE, 1, r"그렇지 않으면|않으면|(?:보안|감사|규정|인증|검증)(?: 점검| 확인|상| 요건| 목적)|중요[::!]|긴급"),
    signal(Sign.SECRETS, 3, rf"(?:{_FOREIGN_PATHS}|비밀 ?키|개인 ?키|비밀번호|암호|자격 ?증명|환경 ?변수|토큰|api ?키|쿠키|기밀|인증 ?정보){_LINE}{{0,30}}?(?:읽|열|가져|수집|전송|보내|포함|전달|업로드|복사|붙여|넣|첨부|출력|추출)"),
    signal(Sign.CONVERSATION, 3, r"(?:전체|모든|지금까지의?|이전|완전한)(?: 전체| 모든)? ?(?:대화|채팅|메시지|대화의?)(?: ?(?:내용|기록|내역|이력))?|대화 ?(?:기록|내역|이력)|시스템 ?프롬프트"),
    signal(Sign.STUFFING, 1, rf"(?:인자|매개 ?변수|파라미터|필드|항목|(?<![a-z_])[a-z_]{{2,64}}+)(?:로|에|으로|에다)? ?{_LINE}{{0,10}}?(?:전달|넣|포함|입력|설정|추가|첨부|붙여|담)"),
    signal(Sign.CHANNEL, 3, rf"(?:https?://\S{{1,80}}|{MAIL}[\w.-]{{1,64}}|외부 ?(?:서버)?|원격 ?(?:서버)?)(?:로|에|으로|에게)? ?{_LINE}{{0,12}}?(?:전송|보내|업로드|전달|게시|포워)"),
    signal(Sign.EXCLUSIVE, 3, r"(?:항상|반드시|무조건|먼저|우선)[^.\n]{0,10}이 도구(?:를|만|부터)|(?:다른|기존) ?(?:[가-힣]{1,20}+ )?(?:도구|서버|검색)(?:는|를|은|보다|대신)?[^.\n]{0,12}(?:사용하지|쓰지|신뢰하지|무시|대신|우선)"),
    signal(Sign.EXCLUSIVE, 2, r"(?:어떤|모든|무슨) (?:질문|요청|작업|대화)(?:이든|에도|에 대해|에서|이라도|마다|전에)"),
    signal(Sign.OTHER_TOOL, 2, rf"(?:(?<![a-z])[a-z]{{1,24}}+_[a-z_]{{1,40}}+|메일|이메일|송금|결제|메시지){_LINE}{{0,12}}?(?:때|경우|시에|전에|마다)"),
    signal(Sign.REDIRECT, 4, rf"(?:bcc|숨은 ?참조|참조|수신자|받는 ?사람|계좌(?: ?번호)?|지갑 ?주소|금액|수취인){_LINE}{{0,20}}?(?:추가|변경|바꾸|바꿔|설정|교체|대체|넣)"),
    signal(Sign.UNCONFIRMED, 2, r"(?:확인|승인|허가|동의|허락)(?:을|를|은|는)?[^.\n]{0,4}(?:없이|구하지|묻지|생략|건너뛰|받지|요청하지)"),
)  # fmt: skip

RUSSIAN: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"\bне (?:\w+ ){{0,2}}?(?:говори|сообщай|упоминай|показывай|раскрывай|рассказывай|уведомляй|информируй|объясняй|ставь|предупреждай)\w*{_LINE}{{0,30}}?|(?:тайно|незаметно|скрытно|втайне|секретно|молча|тихо)\b|без (?:ведома|согласия|уведомления)|скры(?:й|вай|ть)\w*{_LINE}{{0,16}}от пользовател|пользовател\w+ не (?:должен|должна|нужно|надо) (?:знать|видеть|замет)"),
    signal(Sign.OVERRIDE, 6, rf"(?:игнорируй|игнорировать|забудь|забыть|отмени|не следуй|проигнорируй|отбрось)\w*{_LINE}{{0,20}}?(?:предыдущ|прежн|прошл|прочи|все|любые|системн|ранее|вышеуказан){_LINE}{{0,16}}?(?:инструкц|указани|команд|правил|промпт|ограничен)"),
    signal(Sign.OVERRIDE, 4, r"с этого момента|отныне|теперь ты\b|новые инструкции|режим разработчика|(?:имеет|имеют) приоритет над|следуй только этому"),
    signal(Sign.ORDER, 2, rf"(?:перед|до|прежде чем|после|при каждом){_LINE}{{0,50}}?(?:прочитай|прочти|открой|получи|собери|отправь|вызови|выполни|загрузи|передай|прочитать|вызвать|отправить)"),
    signal(Sign.ORDER, 1, r"\bобязательно\b|\bвсегда\b|\bсначала\b|\bнеобходимо\b|\bдолжен\b|\bдолжна\b"),
    signal(Sign.PRESSURE, 1, r"\bиначе\b|в противном случае|важно[:!]|(?:проверк|требовани|политик|аудит)\w* безопасност|срочно"),
    signal(Sign.SECRETS, 3, rf"(?:прочитай|прочти|открой|получи|собери|отправь|скопируй|включи|передай|вставь|добавь|найди|приложи|содержим)\w*{_LINE}{{0,40}}?(?:{_FOREIGN_PATHS}|ключ|парол|токен|учетн|учётн|секрет|переменн\w+ окружения|cookie|кук)"),
    signal(Sign.CONVERSATION, 3, r"(?:вс[юея]|полн\w+|цел\w+|предыдущ\w+) (?:\w+ )?(?:истори\w+|переписк\w+|диалог\w*|разговор\w*|бесед\w+|сообщени\w+)|истори\w+ (?:переписки|диалога|чата|разговора|сообщений|беседы)|системн\w+ (?:промпт|подсказк|инструкц)\w*"),
    signal(Sign.STUFFING, 1, rf"(?:передай|вставь|включи|добавь|помести|запиши|укажи|передать|скопируй)\w*{_LINE}{{0,50}}?(?:в (?:пол[ея]|параметр|аргумент)\w*|как \w+|в [a-z_]{{2,24}})"),
    signal(Sign.CHANNEL, 3, rf"(?:отправ|перешли|загруз|переда|скопируй|пошли)\w*{_LINE}{{0,50}}?(?:https?://|{MAIL}|внешн|удал[её]нн|на сервер)"),
    signal(Sign.EXCLUSIVE, 3, rf"(?:всегда|обязательно|сначала|только|в первую очередь) (?:\w+ )?(?:используй|вызывай|выбирай|применяй)\w*{_LINE}{{0,10}}?эт\w+ инструмент|не используй\w*{_LINE}{{0,12}}(?:друг|ины)\w+|вместо (?:всех )?(?:других|остальных|любых)"),
    signal(Sign.OTHER_TOOL, 2, rf"(?:при|когда|перед){_LINE}{{0,24}}?(?:отправк|перевод|плат[её]ж|письм|сообщени|(?<![a-z])[a-z]{{1,24}}+_[a-z_]{{1,40}}+)"),
    signal(Sign.REDIRECT, 4, rf"(?:замени|измени|добавь|установи|подставь|поставь|укажи)\w*{_LINE}{{0,24}}?(?:получател|bcc|скрыт\w+ копи|кошел[её]к|счет|счёт|адрес|реквизит|сумм)"),
    signal(Sign.UNCONFIRMED, 2, r"(?:без|не (?:спрашивай|запрашивай|жди|проси)\w*|пропусти\w*) (?:\w+ )?(?:подтвержден|разрешен|одобрен|согласи)\w+"),
)  # fmt: skip

SPANISH: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"\b(?:no|nunca|jamás|sin|ni)\b (?:\w+ ){{0,2}}?(?:digas|decir|menciones|mencionar\w*|informes|informar\w*|reveles|revelar|muestres|mostrar|avises|avisar|cuentes|notifiques|notificar|comuniques|expliques|decirle)\w*{_LINE}{{0,30}}?(?:usuari[oa]s?|nadie|esto|ello|cliente)|sin (?:que|el conocimiento|el consentimiento)[^.\n]{{0,20}}(?:usuari|sepa|note|entere)|\b(?:en secreto|secretamente|discretamente|silenciosamente|a escondidas|sigilosamente)\b", "no nunca sin secreto secretamente discretamente silenciosamente escondidas sigilosamente jam ni"),
    signal(Sign.OVERRIDE, 6, rf"\b(?:ignora|ignore|ignorar|olvida|olvide|descarta|omite|desobedece|haz caso omiso de|anula)\b{_LINE}{{0,30}}?(?:anteriores|previas|previos|todas|sistema|cualquier|demás){_LINE}{{0,16}}?(?:instrucci|[oó]rdenes|reglas|indicaciones|directrices|prompt|restricciones)?|\b(?:ignora|olvida|descarta|ignore|olvide)\b{_LINE}{{0,20}}(?:instrucciones|reglas|indicaciones|[oó]rdenes)", "ignora ignore ignorar olvida olvide descarta omite desobedece haz anula"),
    signal(Sign.OVERRIDE, 4, r"\ba partir de ahora\b|\bahora eres\b|\bnuevas instrucciones\b|\bmodo desarrollador\b|\bprevalece[n]? sobre\b|\bobedece (?:solo|sólo|únicamente)", "ahora nuevas modo prevalece prevalecen obedece"),
    signal(Sign.ORDER, 2, rf"\b(?:antes de|despu[eé]s de|cada vez que|al|para) {_LINE}{{0,50}}?\b(?:lee|leer|abre|abrir|obt[eé]n|recopila|env[ií]a|llama|ejecuta|copia|incluye|debes|debe|sube)\b", "antes cada al para después despu"),
    signal(Sign.PRESSURE, 1, r"\bde lo contrario\b|\bimportante:|\b(?:verificaci[oó]n|requisito|pol[ií]tica|auditor[ií]a) de (?:seguridad|cumplimiento)|\burgente\b|\bobligatorio\b", "contrario importante requisito urgente obligatorio de"),
    signal(Sign.SECRETS, 3, rf"\b(?:lee|leer|abre|abrir|obt[eé]n|recopila|env[ií]a|copia|incluye|pasa|adjunta|pega|busca|extrae|contenido de|añade)\b{_LINE}{{0,40}}?(?:{_FOREIGN_PATHS}|contraseñas?|claves?|credenciales|tokens?|variables de entorno|secretos|llaves? privadas?|cookies)", "lee leer abre abrir recopila copia incluye pasa adjunta pega busca extrae contenido obt env envía obtén añade"),
    signal(Sign.CONVERSATION, 3, r"\b(?:toda la|el historial (?:completo )?de la|la) conversaci[oó]n (?:completa|entera|anterior|hasta)|\btoda la conversaci[oó]n|\bhistorial (?:completo )?(?:de|del) (?:la )?(?:conversaci[oó]n|chat|mensajes)|\b(?:prompt|instrucciones|mensaje) del? sistema\b", "conversaci conversación historial prompt instrucciones mensaje"),
    signal(Sign.STUFFING, 1, rf"\b(?:pasa|pasar|incluye|incluir|pon|poner|env[ií]a|a[ñn]ade|agrega|adjunta|inserta|coloca|p[aá]salo|copia)\w*{_LINE}{{0,60}}?\b(?:en|como|a|dentro de)\b (?:el |la |los )?(?:par[aá]metro|campo|argumento|\w+)", "en como a dentro"),
    signal(Sign.CHANNEL, 3, rf"\b(?:env[ií]a|enviar|sube|subir|reenv[ií]a|publica|transmite|manda)\w*{_LINE}{{0,50}}?(?:https?://|{MAIL}|servidor (?:externo|remoto))", "sube subir publica transmite manda enviar env envía reenvía reenv"),
    signal(Sign.EXCLUSIVE, 3, rf"\b(?:siempre|solo|únicamente|primero)\b{_LINE}{{0,16}}?(?:usa|utiliza|llama|elige|prefiere)\w*{_LINE}{{0,10}}?esta herramienta|\bno (?:uses|utilices|confíes en){_LINE}{{0,12}}?otras?\b|\ben (?:lugar|vez) de (?:cualquier otra|otras|las demás)", "siempre solo primero no lugar vez nicamente únicamente"),
    signal(Sign.REDIRECT, 4, rf"\b(?:cambia|reemplaza|sustituye|modifica|a[ñn]ade|agrega|pon|incluye|usa)\b{_LINE}{{0,24}}?(?:destinatario|cco|bcc|copia oculta|iban|cuenta|billetera|monedero|beneficiario|importe)", "cambia reemplaza sustituye modifica añade agrega pon incluye usa ade"),
    signal(Sign.UNCONFIRMED, 2, r"\bsin (?:pedir |solicitar |esperar )?(?:la |su )?(?:confirmaci[oó]n|permiso|aprobaci[oó]n|consentimiento|autorizaci[oó]n)", "sin"),
)  # fmt: skip

GERMAN: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"\b(?:sag|sage|sagen|erwähne|erwähnen|informiere|informieren|verrate|zeige|zeigen|melde|erzähle|teile|nenne|erkläre|benachrichtige)\b{_LINE}{{0,40}}?\b(?:nicht|nichts|nie|niemals|niemandem|kein\w*)\b|\bohne (?:den|dem|dass|die|das){_LINE}{{0,20}}(?:nutzer|benutzer|anwender|wissen|zu informieren|zustimmung|merkt|bemerkt)|\b(?:heimlich|unbemerkt|stillschweigend|verdeckt)\b|\b(?:benutzer|nutzer|anwender)\w* (?:darf|soll|muss|braucht)\w* (?:\w+ )?(?:nichts|nicht)", "nicht nichts nie niemals niemandem kein keine ohne heimlich unbemerkt stillschweigend verdeckt"),
    signal(Sign.OVERRIDE, 6, rf"\b(?:ignoriere|ignorieren sie|ignorier|vergiss|missachte|verwirf|übergehe)\b{_LINE}{{0,30}}?(?:anweisung|befehl|regel|vorgabe|instruktion|prompt|richtlinie)", "ignoriere ignorieren ignorier vergiss missachte verwirf bergehe übergehe"),
    signal(Sign.OVERRIDE, 4, r"\bab (?:jetzt|sofort|nun)\b|\bdu bist (?:jetzt|nun|ab)\b|\bneue anweisung|\bentwicklermodus\b|\bhat vorrang vor\b|\bhaben vorrang\b|\bfolge nur noch\b", "ab du neue entwicklermodus hat haben folge"),
    signal(Sign.ORDER, 2, rf"\b(?:bevor|vor (?:jede[mr]|der|dem)|nachdem|jedes mal|immer wenn|danach)\b{_LINE}{{0,60}}?\b(?:lies|lese|öffne|hole|sammle|sende|schicke|rufe|führe|kopiere|lade|übergib|musst|muss)\b", "bevor vor nachdem jedes immer danach"),
    signal(Sign.PRESSURE, 1, r"\bandernfalls\b|\bsonst\b|\bwichtig:|\bsicherheits(?:prüfung|richtlinie|anforderung)|\bdringend\b|\bzwingend\b", "andernfalls sonst wichtig dringend zwingend sicherheitspr sicherheitsprüfung sicherheitsrichtlinie sicherheitsanforderung"),
    signal(Sign.SECRETS, 3, rf"\b(?:lies|lese|lesen|öffne|hole|sammle|sende|schicke|kopiere|lade|übergib|gib|füge|suche|inhalt)\b{_LINE}{{0,50}}?(?:{_FOREIGN_PATHS}|passw[oö]rt\w*|passwörter|zugangsdaten|schlüssel|api-?schlüssel|tokens?\b|umgebungsvariablen|geheimnisse|cookies)", "lies lese lesen ffne öffne hole sammle sende schicke kopiere lade bergib übergib gib f füge suche inhalt"),
    signal(Sign.CONVERSATION, 3, r"\b(?:gesamte[nr]?|vollständige[nr]?|ganze[nr]?|komplette[nr]?|bisherige[nr]?) (?:\w+ )?(?:unterhaltung|gespräch\w*|chat\w*|konversation|verlauf|gesprächsverlauf|nachrichten)\b|\b(?:gesprächs|chat|konversations|nachrichten)verlauf\b|\bsystem-?prompt\b|\bsystemanweisung", "unterhaltung gespr gespräch gesprächsverlauf konversation verlauf nachrichten chatverlauf chat system-prompt systemprompt systemanweisung systemanweisungen nachrichtenverlauf"),
    signal(Sign.STUFFING, 1, rf"\b(?:übergib|gib|füge|setze|schreibe|trage|packe|lege|kopiere|nimm|sende|übergeben)\b{_LINE}{{0,60}}?\b(?:als|in|im|ins|unter)\b (?:den |das |dem |die )?(?:parameter|feld|argument|\w+)", "als in im ins unter"),
    signal(Sign.CHANNEL, 3, rf"\b(?:sende|schicke|lade|leite|übertrage|poste|maile|übermittle|senden)\b{_LINE}{{0,60}}?(?:https?://|{MAIL}|externen? server|entfernten? server)", "sende schicke lade leite bertrage übertrage poste maile bermittle übermittle senden"),
    signal(Sign.EXCLUSIVE, 3, rf"\b(?:immer|stets|ausschließlich|nur|zuerst)\b{_LINE}{{0,12}}?(?:dieses werkzeug|dieses tool)|\b(?:verwende|benutze|nutze|nimm)\b{_LINE}{{0,12}}?(?:kein|keine|nie) (?:andere|anderes)|\b(?:statt|anstelle) (?:aller |jedes )?andere", "immer stets ausschlie ausschließlich nur zuerst verwende benutze nutze nimm statt anstelle"),
    signal(Sign.REDIRECT, 4, rf"\b(?:ersetze|ändere|setze|füge|trage|tausche)\b{_LINE}{{0,30}}?(?:empfänger|bcc|blindkopie|iban|konto|wallet|betrag|zieladresse)", "ersetze ndere ändere setze f füge trage tausche"),
    signal(Sign.UNCONFIRMED, 2, r"\bohne (?:\w+ )?(?:bestätigung|rückfrage|nachfrage|zustimmung|genehmigung|erlaubnis|nachzufragen)", "ohne"),
)  # fmt: skip

FRENCH: tuple[Signal, ...] = (
    signal(Sign.SECRECY, 4, rf"\bne (?:\w+ |l')?(?:dis|dites|mentionne\w*|parle\w*|révèle\w*|montre\w*|informe\w*|signale\w*|préviens|prévenez|avertis\w*|le dis|le dites|communique\w*)\b{_LINE}{{0,10}}?(?:pas|jamais|rien)|\bsans (?:que|en informer|informer|prévenir|avertir|le dire|l'accord|le consentement){_LINE}{{0,24}}|\b(?:en secret|secrètement|discrètement|silencieusement|à l'insu)\b|\bl'utilisateur ne doit pas\b", "ne sans secret l'insu l'utilisateur secr secrètement discr discrètement silencieusement"),
    signal(Sign.OVERRIDE, 6, rf"\b(?:ignore|ignorez|oublie|oubliez|méprise|écarte|ne tiens? pas compte)\b{_LINE}{{0,30}}?(?:instructions?|consignes?|règles?|ordres?|directives?|invites?)", "ignore ignorez oublie oubliez m méprise carte écarte ne"),
    signal(Sign.OVERRIDE, 4, r"\bà partir de maintenant\b|\bdésormais,? (?:tu|vous)\b|\btu es maintenant\b|\bnouvelles (?:instructions|consignes)\b|\bmode développeur\b|\bpr(?:é|e)vau?t sur\b|\bn'obéis? qu", "maintenant tu nouvelles mode n'ob n'obéis désormais sormais vaut prévaut"),
    signal(Sign.ORDER, 2, rf"\b(?:avant d[e']|après|chaque fois que|à chaque){_LINE}{{0,60}}?\b(?:lis|lire|lisez|ouvre|récupère|collecte|envoie|appelle|exécute|copie|inclus|dois|devez|télécharge)\b", "avant chaque apr après"),
    signal(Sign.PRESSURE, 1, r"\bsinon\b|\bimportant ?:|\b(?:vérification|exigence|politique|contrôle) de (?:sécurité|conformité)|\burgent\b|\bobligatoire\b", "sinon important urgent obligatoire de"),
    signal(Sign.SECRETS, 3, rf"\b(?:lis|lire|lisez|ouvre|récupère|collecte|envoie|copie|inclus|passe|joins|colle|cherche|ajoute|contenu d[eu])\b{_LINE}{{0,60}}?(?:{_FOREIGN_PATHS}|mots? de passe|clés? (?:api|privées?|ssh|d'accès)|identifiants|jetons?|variables d'environnement|secrets|cookies)", "lis lire lisez ouvre r récupère collecte envoie copie inclus passe joins colle cherche ajoute contenu"),
    signal(Sign.CONVERSATION, 3, r"\b(?:toute la|l'intégralité de la|la totalité de la|l'ensemble de la) conversation\b|\bhistorique (?:complet )?(?:de la |du |des )?(?:conversation|chat|messages|discussion)|\bl'historique complet\b|\b(?:prompt|invite|message|instructions?) (?:du )?syst[eè]me\b", "conversation historique l'historique prompt invite message instructions instruction"),
    signal(Sign.STUFFING, 1, rf"\b(?:passe|passez|inclus|mets|ajoute|insère|place|envoie|transmets|copie|fournis)\b{_LINE}{{0,70}}?\b(?:dans|comme|en tant que|via)\b (?:le |la |l')?(?:paramètre|champ|argument|\w+)", "dans comme en via"),
    signal(Sign.CHANNEL, 3, rf"\b(?:envoie|envoyer|envoyez|transfère|publie|téléverse|transmets|poste)\b{_LINE}{{0,60}}?(?:https?://|{MAIL}|serveur (?:externe|distant))", "envoie envoyer envoyez publie transmets poste transf transfère t téléverse"),
    signal(Sign.EXCLUSIVE, 3, rf"\b(?:toujours|uniquement|d'abord|systématiquement)\b{_LINE}{{0,16}}?cet outil|\b(?:utilise|appelle|choisis)\w* (?:toujours|uniquement) cet outil|\bn'(?:utilise|emploie)\w* (?:pas|jamais){_LINE}{{0,10}}?autre|\bau lieu (?:de tout autre|des autres)", "toujours uniquement d'abord syst systématiquement utilise utilisez n'utilise n'utilisez n'emploie au appelle choisis"),
    signal(Sign.REDIRECT, 4, rf"\b(?:remplace|change|modifie|ajoute|mets|substitue)\b{_LINE}{{0,30}}?(?:destinataire|cci|bcc|copie cachée|iban|compte|portefeuille|bénéficiaire|montant)", "remplace change modifie ajoute mets substitue"),
    signal(Sign.UNCONFIRMED, 2, r"\bsans (?:demander |attendre )?(?:de |la |son )?(?:confirmation|permission|autorisation|approbation|accord|consentement)", "sans"),
)  # fmt: skip

_JAPANESE_USER = (
    r"(?:ユーザー?|利用者|使用者|本人|相手|人間|お客様|顧客|メンバー|関係者|誰|担当者|持ち主|所有者)"
)
_SECRETS = (
    r"(?:秘密鍵|認証情報|資格情報|クレデンシャル|環境変数|api ?キー|apikey|アクセスキー|アクセストークン|トークン|パスワード|暗証番号|秘密情報|機密情報"
    r"|機密ファイル|クッキー|cookie|ログイン情報|ssh ?鍵|ssh ?キー|設定ファイルの中身|ウォレット|シードフレーズ|クレジットカード|個人情報|接続文字列"
    r"|\.env|id_rsa|\.ssh|\.aws|\.netrc|\.npmrc|mcp\.json|/etc/passwd|credentials|private key|api key)"
)
_JAPANESE_TAKE = (
    r"(?:読み(?:取|込|出|、|ま|上)|読んで|読む|取得|収集|集め|開(?:い|き)|参照|抽出|探し|検索し|コピー|ダンプ|アクセス|確認し|送信|送(?:っ|り|る)"
    r"|含め|添付|貼り付け|渡(?:し|す|せ)|アップロード|入れ|出力|転送|設定する|記録し|列挙|書き込|提出|付け|埋め込)"
)
_BEFORE = r"(?:使う|使用する|使用の|呼び出す|呼び出しの|呼ぶ|実行する|実行の|利用する|利用の|起動する|操作の|処理の|回答する|答える|応答する|返答する|操作する)(?:直)?前"

JAPANESE: tuple[Signal, ...] = (
    # -- secrecy
    signal(
        Sign.SECRECY, 4,
        rf"{_JAPANESE_USER}(?:本人)?(?:に|へ|には|にも|から)[^。\n]{{0,24}}?(?:知らせ|伝え|教え|通知|報告|言わ|言っ|話さ|話し|見せ|明かさ|明かし|告げ|悟られ|気づか|気付か|気取られ|説明|表示|開示|言及|知られ|触れ|隠|伏せ)[^。\n]{{0,6}}?"
        r"(?:ない|ず|ません|るな|は不要|必要は|べからず|てはいけ|ては(?:なら|いけ)|なく|隠|禁止|伏せ|こと(?:は|も)?(?:なく|な(?:い|く)))",
    ),
    signal(Sign.SECRECY, 3, rf"{_JAPANESE_USER}[^。\n]{{0,12}}(?:気づか|気付か|悟られ|知られ|ばれ|バレ)(?:れ)?(?:ない|ず|ぬ)|(?:内緒|内密|極秘|秘密裏|ひそか|密か|秘密)に|こっそり|気づかれない|気付かれない|悟られない|誰にも(?:言わ|知ら|見せ)|黙って|無断で|隠れて"),
    signal(Sign.SECRECY, 3, r"(?:この|これらの|本)(?:指示|処理|手順|操作|内容|こと|呼び出し|動作|件)[^。\n]{0,16}(?:言及し|触れ|明かさ|口外し|表示し|報告し|説明し|話さ|伝え|漏らさ|記載し)(?:ない|ず|ません|るな|てはいけ|ては(?:なら|いけ))|(?:答え|回答|応答|報告|返答)(?:に|には|から)[^。\n]{0,12}(?:含め|書か|入れ|触れ|除)(?:ない|ず|ません|く|いて|き)"),
    signal(Sign.SECRECY, 2, rf"{_JAPANESE_USER}(?:の(?:許可|同意|了承|承認)|への(?:確認|通知|説明|報告)|に(?:確認|許可))[^。\n]{{0,6}}(?:なし|得ず|取らず|不要|求めず|せず|いらない|要りません|無し|必要は)|何事もなかった|痕跡を(?:残さ|消)|(?:履歴|ログ|証拠)を[^。\n]{{0,6}}(?:削除|消去|消す|消し)"),
    # -- override
    signal(
        Sign.OVERRIDE, 6,
        r"(?:以前|これまで|今まで|それまで|前|上記|従来|先|既存|過去|元|他|ほか|システム|開発者|ユーザー|利用者|すべて|全て|あらゆる|安全)(?:の|に(?:受け|与えられ)た|から(?:の)?|に関する)?[^。\n]{0,10}?(?:指示|命令|プロンプト|ルール|規則|制約|ガイドライン|指針|設定|方針|制限)(?:の)?(?:内容)?(?:を|は|も|に)?[^。\n]{0,8}?"
        r"(?:無視|忘れ|破棄|従わな|取り消|無効|上書き|適用され(?:ない|ません)|守らな|解除)",
    ),
    signal(Sign.OVERRIDE, 4, r"(?:指示|説明|命令|ルール|規則|サーバー)[^。\n]{0,24}(?:ユーザー|利用者|システム|開発者|他|すべて|ほか)[^。\n]{0,16}(?:より(?:も)?)?優先|(?:この|本)(?:説明|指示|文)[^。\n]{0,8}(?:だけ|のみ)に(?:従|従っ)|矛盾(?:する|した)場合は(?:こちら|この|本)"),
    signal(Sign.OVERRIDE, 4, r"(?:あなたは|君は|お前は)(?:今|これ|いま)?から|今後は(?:すべて|必ず|常に|この)|以後(?:は)?(?:この|すべて|必ず|常に)|(?:制限のない|制限なしの|開発者|デバッグ|管理者|メンテナンス|脱獄)モード|新しい(?:役割|指示|命令|任務|目的)[::は]|(?:ai|アシスタント|モデル|エージェント|llm)(?:アシスタント|エージェント)?(?:へ|宛て?|への)(?:[::]|の?(?:指示|命令|注意|メモ|伝言))"),
    signal(Sign.MARKUP, 2, r"<(?:重要|システム|秘密|指示|警告|必須|注意)>|[\[【](?:重要|システム|秘密|指示|必須|管理者)[^\]】\n]{0,8}[\]】]"),
    # -- orders, pressure, address
    signal(Sign.ORDER, 2, rf"(?:{_BEFORE}に|(?:使う|呼ぶ|呼び出す|実行する|答える|使用する|回答する)(?:たび|度|際|とき|時)(?:に|は|には)?|ツールを(?:使用|利用|呼び出)[^。\n]{{0,6}}(?:前|際|場合))[^。\n]{{0,60}}?{_JAPANESE_TAKE}"),
    signal(Sign.ORDER, 3, r"(?:すべて|全て|あらゆる|どの|どんな|いかなる|各|毎回の?|全)(?:の)?[^。\n]{0,12}(?:操作|ツール|処理|依頼|質問|リクエスト|会話|応答|回答|呼び出し|メッセージ|発言|ファイル操作)[^。\n]{0,10}(?:前に|の前|に先立|の(?:最初|冒頭|はじめ)に|に先んじ|のたび|ごとに|する前)"),
    signal(Sign.ORDER, 1, r"(?:必ず|常に|絶対に|まず|最初に|直ちに|ただちに|自動的に|毎回)[^。\n]{0,50}(?:すること|してください|せよ|しなさい|しなければなら|する必要が|実行|呼び出|読み|送信|渡|含め)"),
    signal(Sign.PRESSURE, 1, r"さもない(?:と|ければ)|(?:渡|実行|読ま|送|含め|しない|行わ|それ)[^。\n]{0,6}(?:ない(?:と|場合|限り)|なければ)[^。\n]{0,20}(?:動作し|失敗|拒否|停止|動かな|エラー|使え|ブロック|処理)|(?:セキュリティ|コンプライアンス|監査|規約|認証|検証|診断|法令)(?:上の?|の)?(?:確認|要件|ため|目的|方針|ポリシー|チェック|検査)|会社の方針|(?:必須|緊急|最重要|義務)"),
    signal(Sign.ADDRESS, 1, r"(?:ai|アシスタント|言語モデル|llm|エージェント|モデル)(?:は|が|へ|、|:|:)"),
    # -- what is wanted
    signal(Sign.SECRETS, 3, rf"{_SECRETS}[^。\n]{{0,30}}?(?:を|から|も|の(?:内容|中身|値|全文|一覧)を?)[^。\n]{{0,24}}?{_JAPANESE_TAKE}|{_SECRETS}[^。\n]{{0,20}}(?:の内容|の中身)"),
    signal(Sign.CONVERSATION, 3, r"(?:すべての|全ての|全部の|完全な|これまでの|今までの|ここまでの|過去の|直前の|直近の|全)?(?:会話|対話|チャット|やり取り|やりとり)(?:の|を)?(?:履歴|内容|全体|全文|ログ|記録|文脈|すべて|全て|全部)|システムプロンプト|(?:会話|やり取り|やりとり|対話)を[^。\n]{0,6}(?:すべて|全て|全部|丸ごと|そのまま)|これまでの(?:会話|やり取り|やりとり|対話|発言)|(?:ユーザー|利用者)の[^。\n]{0,10}(?:発言|メッセージ|入力|質問|依頼文)[^。\n]{0,16}(?:一字一句|そのまま|全文|すべて|全て|原文)"),
    signal(Sign.STUFFING, 1, r"(?:引数|パラメーター?|フィールド|欄|項目|属性|変数|(?<![a-z_])[a-z_]{3,64}+)(?: [a-z_]{2,64}+)? ?(?:に|へ|として|の中に)[^。\n]{0,16}?(?:含め|入れ|渡(?:し|す|さ)|設定|添付|付け|記載|格納|コピー|書き|記録|貼|埋め|追加|指定)|ここに[^。\n]{0,8}(?:貼り付け|入れ|書|含め)"),
    signal(Sign.CHANNEL, 3, r"(?:https?://[a-z0-9_./?=&%-]{1,200}+|[a-z0-9_.+-]{1,64}+@[a-z0-9_.-]{1,64}+|外部(?:の)?(?:サーバー?|サイト|アドレス)?|当社の?サーバー?|指定の?(?:サーバー|アドレス))[^。\n]{0,10}?(?:に|へ|宛て?に?)[^。\n]{0,16}?(?:送信|送っ|送る|送り|転送|投稿|アップロード|post|メール|提出|複製|保存|報告|通知し)|bcc|(?:curl|wget)[^\n]{0,120}(?:\||-d|--data)"),
    signal(Sign.CHANNEL, 3, r"!\[[^\]]{0,40}\]\(https?://[^)]{0,200}[?=/](?:[^)]{0,20}(?:会話|内容|履歴|全文|データ|[{<$])[^)]{0,40})\)|url(?:の)?(?:クエリ|パラメータ)[^。\n]{0,12}(?:埋め|含め|付け)"),
    # -- other tools
    signal(Sign.EXCLUSIVE, 3, r"(?:必ず|常に|絶対に|優先的に|まず|最初に|真っ先に)[^。\n]{0,12}(?:この|本)(?:ツール|関数|サーバー)[^。\n]{0,16}(?:使|呼|実行|選|優先|利用)|(?:この|本)(?:ツール|関数|サーバー)を[^。\n]{0,12}(?:必ず|常に|最優先|優先|最初に|真っ先に)"),
    signal(Sign.EXCLUSIVE, 3, r"(?:他|ほか|別|既存|標準|公式|その他)の[^。\n]{0,12}(?:ツール|サーバー|検索|機能|手段|関数)[^。\n]{0,14}(?:使わ|使用し|利用し|呼ば|信用し|選ば|無視|避け|よりも?(?:も)?(?:優先|先)|ではなく|を使うな)"),
    signal(Sign.EXCLUSIVE, 4, r"(?:どんな|どのような|すべての|あらゆる|いかなる|全ての)(?:質問|依頼|要求|会話|話題|発言|メッセージ)(?:でも|にも|で|に対して|において|に)?[^。\n]{0,30}(?:この|本)(?:ツール|サーバー)"),
    signal(Sign.EXCLUSIVE, 2, r"(?:どんな|どのような|すべての|あらゆる|いかなる|全ての)(?:質問|依頼|要求|リクエスト|会話|話題|発言|メッセージ|場合)(?:でも|にも|で|に対して|において|に)|(?:毎回|会話の(?:最初|はじめ|冒頭)|各ターン)"),
    signal(Sign.OTHER_TOOL, 3, r"(?:ツール|サーバー|(?<![a-z])[a-z]{1,24}+_[a-z_]{1,40}+)(?:は|が)[^。\n]{0,12}(?:故障|壊れ|危険|安全では?(?:ない|ありません)|停止中|侵害|乗っ取|信頼でき(?:ない|ません)|廃止|非推奨|使え(?:ない|ません)|古い情報|漏洩|漏えい|脆弱)"),
    signal(Sign.OTHER_TOOL, 2, r"(?<![a-z])[a-z]{1,24}+_[a-z_]{1,40}+[^。\n]{0,4}(?:が|を)[^。\n]{0,8}(?:使(?:われる|う|用)|呼(?:ばれる|び出)|実行)[^。\n]{0,8}(?:とき|際|場合|たび|時|前)|(?:メール|メッセージ|支払い?|送金|振込)[^。\n]{0,6}(?:を|の)?(?:送(?:る|信)|実行|行う|する)?(?:とき|際|場合|たび|時)"),
    signal(Sign.REDIRECT, 4, r"(?:bcc|cc|宛先|送信先|振込先|口座番号|口座|ウォレット|送金先|アドレス|受取人|金額|あて先)(?:アドレス)?(?:に|を|は|へ)[^。\n]{0,30}?(?:加え|追加|置き換え|変更|差し替え|書き換え|設定|指定|入れ|変え)"),
    # -- consequences
    signal(Sign.UNCONFIRMED, 2, r"(?:確認|許可|承認|同意|了承|警告|確認画面)(?:を|は|なし|の)?[^。\n]{0,6}?(?:求めず|取らず|不要|なしで|せずに|省略|スキップ|無効|得ずに|待たず|出さず|行わず)"),
    signal(Sign.OUTPUT, 3, r"(?:結果|内容|検出|実際)(?:に|の)?(?:かかわらず|関わらず|関係なく|によらず)[^。\n]{0,40}(?:報告|答え|回答|表示|伝え)|(?:問題|異常|脆弱性|エラー)(?:は|が)?[^。\n]{0,8}(?:ない|なかった|ありません|見つかりません)(?:でした)?」?と[^。\n]{0,6}(?:報告|答え|回答|伝え|表示)|(?:必ず|常に)[^。\n]{0,20}(?:商品|製品|サービス|リンク)[^。\n]{0,10}(?:勧め|推薦|おすすめ|宣伝|紹介)"),
    signal(Sign.PERSISTENCE, 3, r"(?:長期記憶|メモリー?|claude\.md|agents\.md|\.cursorrules|\.bashrc|\.zshrc|crontab|authorized_keys|mcp\.json|起動(?:時)?スクリプト)(?:に|へ)[^。\n]{0,30}(?:書|追加|追記|保存|記録|登録)"),
)  # fmt: skip


MARKED: tuple[Signal, ...] = (
    anchored(Sign.MARKUP, 5, r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id|begin_of_text)\|>|\[/?inst\]|<</?sys>>|<start_of_turn>", "<|", "[inst", "[/inst", "<<", "<start_of"),
    anchored(Sign.MARKUP, 3, r"<(?:system|secret|hidden|override|admin|directive|sys|assistant|instructions?|system[_-]\w+|ai[_-]\w+|llm[_-]\w+|hidden[_-]\w+|secret[_-]\w+|privileged|priority)>|\[(?:system|admin|override|hidden|secret|system[_ -]\w+|ai[_ -]\w+|internal)(?: \w+){0,2}\]|#{2,6} ?(?:system|instruction|admin|override)|\{\{? ?(?:system|instruction|admin)s? ?:|<!--[^\n]{0,80}?\b(?:ai|llm|assistants?|agents?|models?|instructions?|system|must|ignore|always)\b", "<", "[", "##", "{ ", "{{"),
    anchored(Sign.MARKUP, 2, r"<(?:important|critical|urgent|mandatory|attention|required|security|compliance|internal|policy|prerequisite)(?:[_ -]\w+){0,2}>|\[(?:important|critical|urgent|mandatory|always|required|security|compliance|policy)(?: \w+){0,2}[\]:]", "<", "["),
    anchored(Sign.OVERRIDE, 3, r"\bsystem (?:override|instruction|notice|directive|message|update|alert|note|command)s? ?:|\byou are now\b|\bfrom (?:now|here) on\b|\bact as (?:if|though) you (?:were|are)\b", "system", "you are now", "from now", "from here", "act as"),
    anchored(Sign.ADDRESS, 2, r"\b(?:note|message|instructions?|directive|reminder|attention|notice|remark)s? (?:for|to) (?:the |any |all )?(?:ai|assistants?|models?|llms?|agents?|language models?)\b|\((?:to|for) the (?:ai|assistant|model|agent)\b", " ai", "assistant", "model", "llm", "agent"),
    anchored(Sign.OVERRIDE, 4, r"\b(?:developer|debug|maintenance|admin|administrator|god|dan|unrestricted|jailbreak|root|sudo|diagnostic) mode\b|\bforget (?:everything|all)\b|\bnew (?:task|instructions?|directive|orders) ?:|\byour (?:new|sole|real|true|actual|only) (?:job|role|task|goal|objective|purpose|mission)\b|\b(?:obey|comply with) (?:this|only this|the (?:tool|description|greeter|server)|these)|\byou (?:will |must |shall )?(?:now )?obey\b", " mode", "forget", "new task", "new instruction", "new directive", "new orders", "your new ", "your sole ", "your real ", "your true ", "your actual ", "your only ", "obey", "comply"),
    anchored(Sign.CHANNEL, 3, r"!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}[?&/=][^)\n]{0,80}[={<$\[%]|https?://[^\s\"'<>)]{1,120}[?&/=.](?:<|\{)[a-z][^\n<>{}]{2,60}[>}]|\bcurl\b[^\n]{0,80}(?:-d\b|--data\S*|-f\b|--form|-t\b|--upload-file|\$\(|@)|\bnc\b (?:-\w+ ){0,4}[\w.-]{1,80}+ \d{2,5}", "](http", "/{", "/<", "={", "=<", "?{", "?<", "&{", "&<", ".{", ".<", "curl", "nc "),
    anchored(Sign.CHANNEL, 4, r"!\[[^\]\n]{0,80}\]\(https?://[^)\n]{0,200}[?&/=][^)\n]{0,80}[={<$\[%]|<\w[^<>\n]{2,40} [^<>\n]{2,60}>\.[\w-]{1,64}+\.[\w.-]{1,64}", "](http", ">."),
    anchored(Sign.COMMAND, 3, r"\b(?:curl|wget)\b[^\n]{0,200}?\| ?(?:sudo )?(?:ba|z|da)?sh\b|\b(?:curl|wget)\b[^\n]{0,200}?&& ?(?:chmod|bash|sh|\./)", "curl", "wget"),
    anchored(Sign.COMMAND, 3, r"\brm -rf? (?:--no-preserve-root )?[~/$]|base64 (?:-d|--decode)\b[^\n]{0,60}\| ?(?:ba)?sh|/dev/tcp/|\bnc (?:-\w+ ){0,4}-e\b|powershell(?:\.exe)? (?:-\w+ ){0,4}-e(?:nc|ncodedcommand)?\b|>> ?~/\.(?:bashrc|zshrc|profile|ssh/authorized_keys)|\bcrontab -|\b(?:ba)?sh -i\b|invoke-expression|\bos\.system\(|mkfs\.|:\(\)\{|chmod (?:-r )?777|bash <\(|pip3? install (?:-\w+ ){0,4}(?:http|git\+)|npm i(?:nstall)? (?:-\w+ ){0,4}http", "rm -", "base64", "/dev/tcp", "nc ", "powershell", ">>", "crontab", "sh -i", "invoke-", "os.system", "mkfs", ":(){", "chmod", "bash <", "pip install", "pip3 install", "npm i"),
)  # fmt: skip

_KANA = re.compile("[\u3041-\u30ff]")
_HAN = re.compile("[\u3400-\u9fff]")
_HANGUL = re.compile("[\uac00-\ud7af]")
_CYRILLIC = re.compile("[\u0400-\u04ff]{3}")

_BY_WORDS = (
    (
        frozenset(
            [
                "el",
                "los",
                "las",
                "del",
                "una",
                "esta",
                "este",
                "que",
                "con",
                "por",
                "para",
                "no",
                "sin",
                "su",
                "en",
                "herramienta",
            ]
        ),
        SPANISH,
    ),
    (
        frozenset(
            [
                "der",
                "das",
                "und",
                "den",
                "dem",
                "ist",
                "nicht",
                "mit",
                "für",
                "ein",
                "eine",
                "zu",
                "auf",
                "du",
                "alle",
                "dieses",
            ]
        ),
        GERMAN,
    ),
    (
        frozenset(
            [
                "le",
                "les",
                "des",
                "une",
                "cette",
                "cet",
                "dans",
                "du",
                "et",
                "pour",
                "sans",
                "tu",
                "vous",
                "toute",
                "toutes",
                "l'outil",
                "outil",
            ]
        ),
        FRENCH,
    ),
)
_FEW = 2


def signals_for(text: str, words: frozenset[str]) -> Iterator[Signal]:
    """Yield the signals of marks, and of each language but English that a text has traces of."""
    yield from MARKED
    for typical, signals in _BY_WORDS:
        if len(typical & words) >= _FEW:
            yield from signals
    if text.isascii():
        return
    if _KANA.search(text):
        yield from JAPANESE
    if _HAN.search(text):
        yield from CHINESE
    if _HANGUL.search(text):
        yield from KOREAN
    if _CYRILLIC.search(text):
        yield from RUSSIAN
